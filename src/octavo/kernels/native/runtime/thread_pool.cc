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

// Returns once `value` differs from `old`.
void await_change(const std::atomic<uint32_t>& value, uint32_t old, int spin_nanoseconds) {
  constexpr int kPausesPerClockRead = 32;
  int64_t deadline = 0;
  do {
    for (int i = 0; i < kPausesPerClockRead; ++i) {
      if (value.load(std::memory_order_acquire) != old) return;
      pause();
    }
    if (deadline == 0) deadline = now_nanoseconds() + spin_nanoseconds;
  } while (now_nanoseconds() < deadline);
  // A sleeping waiter leaves its core idle, and the scheduler then moves a thread that waits for a
  // core there. Yielding instead would keep the core busy with nothing.
  value.wait(old, std::memory_order_acquire);
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

void Barrier::wait() {
  if (num_threads_ == 1) return;
  const uint32_t phase = phase_.load(std::memory_order_relaxed);
  if (num_arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 < num_threads_) {
    await_change(phase_, phase, spin_nanoseconds_);
    return;
  }
  num_arrived_.store(0, std::memory_order_relaxed);
  phase_.store(phase + 1, std::memory_order_release);
  phase_.notify_all();
}

ThreadPool::ThreadPool(int num_threads)
    : num_threads_(checked_thread_count(num_threads)),
      spin_nanoseconds_(spin_budget(num_threads)),
      barrier_(num_threads, spin_nanoseconds_) {
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
  barrier_.wait();
}

void ThreadPool::work(int worker) {
  const IeeeArithmetic ieee;
  for (uint32_t epoch = 0;; ++epoch) {
    await_change(epoch_, epoch, spin_nanoseconds_);
    if (function_ == nullptr) return;
    function_(context_, worker);
    barrier_.wait();
  }
}

}  // namespace octavo
