// See machine_probe.h.
#include "runtime/machine_probe.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <stdexcept>

#include "runtime/memory.h"

namespace octavo {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Seconds of the fastest of `passes` jobs. The meeting lets all threads begin together, so that
// waking them does not count.
template <typename Job>
double fastest(ThreadPool& pool, int passes, const Job& job) {
  double best = 1e30;
  for (int pass = 0; pass < passes; ++pass) {
    Clock::time_point start;
    pool.run_on_all([&](int worker, int64_t) {
      pool.crew().meet(worker);
      if (worker == 0) start = Clock::now();
      job(worker);
    });
    best = std::min(best, seconds_since(start));
  }
  return best;
}

// Operations per second of all threads. Results go to `sink`, so that they count as used.
template <typename Probe>
double operations_per_second(ThreadPool& pool, Probe probe, int64_t operations_per_round,
                             double seconds, int passes) {
  std::atomic<int64_t> sink{0};
  int64_t rounds = 1000;
  const auto run = [&](int) { sink += static_cast<int64_t>(probe(rounds)); };
  double taken = fastest(pool, 1, run);
  while (taken < seconds / 4) {  // long enough to be measured
    rounds *= 2;
    taken = fastest(pool, 1, run);
  }
  rounds =
      std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(rounds) * seconds / taken));
  const double operations = static_cast<double>(rounds * operations_per_round * pool.num_threads());
  return operations / fastest(pool, passes, run);
}

}  // namespace

double read_rate(ThreadPool& pool, const MachineProbe& probe, int64_t bytes, int passes) {
  const int64_t part = bytes / pool.num_threads() / kProbeReadBytes * kProbeReadBytes;
  if (part < kProbeReadBytes || passes < 1) {
    throw std::invalid_argument("at least 512 bytes for each thread and one pass are needed");
  }
  MappedMemory memory(part * pool.num_threads());
  std::atomic<int64_t> sink{0};
  // Untouched memory is one page of zeros, which would be read from the cache.
  pool.run_on_all([&](int worker, int64_t) {
    std::memset(memory.data() + worker * part, 1, static_cast<size_t>(part));
  });
  const double best = fastest(
      pool, passes, [&](int worker) { sink += probe.read(memory.data() + worker * part, part); });
  return static_cast<double>(part * pool.num_threads()) / best;
}

ArithmeticRates arithmetic_rates(ThreadPool& pool, const MachineProbe& probe, double seconds,
                                 int passes) {
  if (!(seconds > 0 && seconds <= 60) || passes < 1) {
    throw std::invalid_argument("seconds above 0 and up to 60, and one pass, are needed");
  }
  const auto rate = [&](auto products, int64_t operations_per_round) {
    return operations_per_second(pool, products, operations_per_round, seconds, passes);
  };
  const double f32 = rate(probe.multiply_add_f32, probe.f32_operations_per_round);
  return {rate(probe.dot_int8, probe.int8_operations_per_round), f32,
          probe.dot_bf16 ? rate(probe.dot_bf16, probe.bf16_operations_per_round) : f32};
}

}  // namespace octavo
