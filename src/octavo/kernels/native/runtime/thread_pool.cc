// Spinning, sleeping and waking of the workers.
#include "runtime/thread_pool.h"

#include <sched.h>

#include <chrono>
#include <stdexcept>
#include <string>

#if defined(OCTAVO_X86)
#include <immintrin.h>
#endif

namespace octavo {

namespace {

constexpr int kSpinNanoseconds = 50'000;

void pause() {
#if defined(OCTAVO_X86)
  _mm_pause();
#endif
}

int64_t now_nanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// True once `value` differs from `old`; false when it still does not after about a microsecond.
bool changes_soon(const std::atomic<uint32_t>& value, uint32_t old) {
  for (int i = 0; i < 32; ++i) {
    if (value.load(std::memory_order_acquire) != old) return true;
    pause();
  }
  return false;
}

int checked_thread_count(int num_threads) {
  if (num_threads < 1 || num_threads > ThreadPool::kMaxThreads) {
    throw std::invalid_argument("num_threads is " + std::to_string(num_threads) + "; 1 to " +
                                std::to_string(ThreadPool::kMaxThreads) + " are allowed");
  }
  return num_threads;
}

// With more threads than cores, whoever spins delays the thread it waits for.
int spin_budget(int num_threads) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  const bool known = sched_getaffinity(0, sizeof(cores), &cores) == 0;
  return known && num_threads > CPU_COUNT(&cores) ? 0 : kSpinNanoseconds;
}

}  // namespace

IeeeArithmetic::IeeeArithmetic() : saved_(0) {
#if defined(OCTAVO_X86)
  saved_ = _mm_getcsr();
  _mm_setcsr(0x1f80);  // the state in which the processor starts
#endif
}

IeeeArithmetic::~IeeeArithmetic() {
#if defined(OCTAVO_X86)
  _mm_setcsr(saved_);
#endif
}

Waiting::Waiting(int num_threads)
    : spin_nanoseconds_(spin_budget(num_threads)), places_(static_cast<size_t>(num_threads)) {}

void Waiting::note_core(int worker) {
  places_[static_cast<size_t>(worker)].core.store(sched_getcpu(), std::memory_order_relaxed);
}

bool Waiting::shares_core(int worker) const {
  const int core = places_[static_cast<size_t>(worker)].core.load(std::memory_order_relaxed);
  for (size_t other = 0; other < places_.size(); ++other) {
    if (other == static_cast<size_t>(worker)) continue;
    if (places_[other].core.load(std::memory_order_relaxed) == core) return true;
  }
  return false;
}

void Waiting::await_change(const std::atomic<uint32_t>& value, uint32_t old, int worker) {
  if (changes_soon(value, old)) return;
  // On a busy machine two workers may stand on one core, and the one that runs must not spin.
  if (!shares_core(worker)) {
    const int64_t deadline = now_nanoseconds() + spin_nanoseconds_;
    while (now_nanoseconds() < deadline) {
      if (changes_soon(value, old)) return;
    }
  }
  // A sleeping waiter leaves its core idle, and the scheduler then moves a thread that waits for a
  // core there. Yielding instead would keep the core busy with nothing.
  value.wait(old, std::memory_order_acquire);
}

void Barrier::wait(int worker) {
  if (num_threads_ == 1) return;
  waiting_.note_core(worker);
  const uint32_t phase = phase_.load(std::memory_order_relaxed);
  if (num_arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 < num_threads_) {
    waiting_.await_change(phase_, phase, worker);
    return;
  }
  num_arrived_.store(0, std::memory_order_relaxed);
  phase_.store(phase + 1, std::memory_order_release);
  phase_.notify_all();
}

ThreadPool::ThreadPool(int num_threads)
    : num_threads_(checked_thread_count(num_threads)),
      waiting_(num_threads),
      barrier_(num_threads, waiting_) {
  threads_.reserve(static_cast<size_t>(num_threads - 1));
  try {
    for (int worker = 1; worker < num_threads; ++worker) {
      threads_.emplace_back([this, worker] { work(worker); });
    }
  } catch (...) {  // the system has no more threads
    stop();
    throw;
  }
}

ThreadPool::~ThreadPool() { stop(); }

void ThreadPool::stop() {
  function_ = nullptr;
  epoch_.fetch_add(1, std::memory_order_release);
  epoch_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::run_erased(Function function, const void* context) {
  const std::lock_guard<std::mutex> turn(callers_);
  function_ = function;
  context_ = context;
  epoch_.fetch_add(1, std::memory_order_release);
  epoch_.notify_all();
  {
    const IeeeArithmetic ieee;
    function(context, 0);
  }
  barrier_.wait(0);
}

void ThreadPool::work(int worker) {
  const IeeeArithmetic ieee;
  for (uint32_t epoch = 0;; ++epoch) {
    waiting_.await_change(epoch_, epoch, worker);
    if (function_ == nullptr) return;
    function_(context_, worker);
    barrier_.wait(worker);
  }
}

}  // namespace octavo
