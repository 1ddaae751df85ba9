// Spinning, sleeping and waking of the workers.
#include "runtime/thread_pool.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

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

// What the process was given, by its main thread, whose affinity is not changed here.
bool allowed_cores(cpu_set_t& cores) {
  CPU_ZERO(&cores);
  return sched_getaffinity(getpid(), sizeof(cores), &cores) == 0;
}

bool has_core_for(int num_threads) {
  cpu_set_t cores;
  return !allowed_cores(cores) || num_threads <= CPU_COUNT(&cores);
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

// With more threads than cores, whoever spins delays the thread it waits for.
Waiting::Waiting(int num_threads, bool has_core_each)
    : num_threads_(num_threads),
      spin_nanoseconds_(has_core_each ? kSpinNanoseconds : 0),
      places_(static_cast<size_t>(num_threads)) {}

void Waiting::note_core(int worker) {
  places_[static_cast<size_t>(worker)].core.store(sched_getcpu(), std::memory_order_relaxed);
}

void Waiting::forget_core(int worker) {
  places_[static_cast<size_t>(worker)].core.store(-1, std::memory_order_relaxed);
}

bool Waiting::shares_core(int worker) const {
  const int core = core_of(worker);
  for (int other = 0; other < num_threads_; ++other) {
    if (other != worker && core_of(other) == core) return true;
  }
  return false;
}

// Two workers on one core wake each other in turn. The system sees one of them at a time and so no
// reason to move the other, though a core beside may be idle: steps took twice their time. So the
// worker of the higher number goes where no other is, and stays away from their cores until it
// meets one again. Worker 0 is the caller's thread, whose affinity is not ours to change.
bool Waiting::leaves_core(int worker) {
  if (spin_nanoseconds_ == 0) return false;
  const int core = core_of(worker);
  bool has_to = false;
  cpu_set_t cores;
  if (!allowed_cores(cores)) return false;
  for (int other = 0; other < num_threads_; ++other) {
    if (other == worker || core_of(other) < 0) continue;
    has_to = has_to || (other < worker && core_of(other) == core);
    CPU_CLR(static_cast<size_t>(core_of(other)), &cores);
  }
  if (!has_to || CPU_COUNT(&cores) == 0) return false;
  if (sched_setaffinity(0, sizeof(cores), &cores) != 0) return false;
  note_core(worker);
  return true;
}

bool Waiting::changes_in_time(const std::atomic<uint32_t>& value, uint32_t old, int worker) {
  if (changes_soon(value, old)) return true;
  // On a busy machine two workers may stand on one core, and the one that runs must not spin.
  if (shares_core(worker) && !leaves_core(worker)) return false;
  const int64_t deadline = now_nanoseconds() + spin_nanoseconds_;
  while (now_nanoseconds() < deadline) {
    if (changes_soon(value, old)) return true;
  }
  return false;
}

void Waiting::await_change(const std::atomic<uint32_t>& value, uint32_t old, int worker) {
  // A sleeping waiter leaves its core idle, and the scheduler then moves a thread that waits for a
  // core there. Yielding instead would keep the core busy with nothing.
  if (!changes_in_time(value, old, worker)) value.wait(old, std::memory_order_acquire);
}

namespace {

constexpr uint64_t kOneMember = uint64_t{1} << 16;
static_assert(ThreadPool::kMaxThreads < kOneMember);

uint32_t phase_of(uint64_t state) { return static_cast<uint32_t>(state >> 32); }
uint64_t members_of(uint64_t state) { return state >> 16 & 0xffff; }
uint64_t arrived_of(uint64_t state) { return state & 0xffff; }

}  // namespace

void Crew::open() {
  first_phase_ = phase_of(state_.load(std::memory_order_relaxed));
  waiting_.note_core(0);
  state_.store(uint64_t{first_phase_} << 32 | kOneMember, std::memory_order_release);
}

int64_t Crew::join(int worker) {
  uint64_t state = state_.load(std::memory_order_acquire);
  do {
    if (members_of(state) == 0) return kOver;
  } while (!state_.compare_exchange_weak(state, state + kOneMember, std::memory_order_acq_rel,
                                         std::memory_order_acquire));
  const uint32_t phase = phase_of(state);
  waiting_.note_core(worker);
  // Whoever ended the phase before may not have said so yet.
  waiting_.await_change(phase_, phase - 1, worker);
  return phase - first_phase_;
}

Crew::Arrival Crew::arrive(bool ends_job) {
  uint64_t state = state_.load(std::memory_order_relaxed), next;
  bool is_last;
  do {
    is_last = arrived_of(state) + 1 == members_of(state);
    const uint64_t members = ends_job ? 0 : members_of(state);
    next = is_last ? uint64_t{phase_of(state) + 1} << 32 | members << 16 : state + 1;
  } while (!state_.compare_exchange_weak(state, next, std::memory_order_acq_rel,
                                         std::memory_order_relaxed));
  const uint32_t phase = phase_of(state);
  if (is_last) {
    phase_.store(phase + 1, std::memory_order_release);
    phase_.notify_all();
  }
  return {phase, is_last};
}

void Crew::meet(int worker) {
  if (num_threads_ == 1) return;
  waiting_.note_core(worker);
  const Arrival arrival = arrive(false);
  if (!arrival.was_last) waiting_.await_change(phase_, arrival.phase, worker);
}

void Crew::finish(int worker) {
  const Arrival arrival = arrive(true);
  if (worker == 0 && !arrival.was_last) waiting_.await_change(phase_, arrival.phase, worker);
}

void Crew::await_all() const {
  const auto num_threads = static_cast<uint64_t>(num_threads_);
  while (members_of(state_.load(std::memory_order_acquire)) < num_threads) sched_yield();
}

ThreadPool::ThreadPool(int num_threads)
    : num_threads_(checked_thread_count(num_threads)),
      has_core_each_(has_core_for(num_threads)),
      waiting_(num_threads, has_core_each_),
      crew_(num_threads, waiting_) {
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
  is_stopping_.store(true, std::memory_order_relaxed);
  epoch_.fetch_add(1, std::memory_order_release);
  epoch_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::run_erased(Function function, const void* context, bool on_all) {
  const std::lock_guard<std::mutex> turn(callers_);
  if (const int core = sched_getcpu(); core != callers_core_) keep_off(core);
  function_ = function;
  context_ = context;
  crew_.open();
  epoch_.fetch_add(1, std::memory_order_release);
  epoch_.notify_all();
  if (on_all) crew_.await_all();
  {
    const IeeeArithmetic ieee;
    function(context, 0, 0);
  }
  crew_.finish(0);
}

// A worker that is woken on the caller's core waits there until the caller sleeps, which it may
// never do in the job.
void ThreadPool::keep_off(int core) {
  callers_core_ = core;
  cpu_set_t cores;
  if (core < 0 || !has_core_each_ || !allowed_cores(cores)) return;
  CPU_CLR(static_cast<size_t>(core), &cores);
  for (std::thread& thread : threads_) {
    pthread_setaffinity_np(thread.native_handle(), sizeof(cores), &cores);
  }
}

void ThreadPool::work(int worker) {
  const IeeeArithmetic ieee;
  for (uint32_t epoch = 0;;) {
    if (!waiting_.changes_in_time(epoch_, epoch, worker)) {
      waiting_.forget_core(worker);
      epoch_.wait(epoch, std::memory_order_acquire);
    }
    epoch = epoch_.load(std::memory_order_acquire);
    if (is_stopping_.load(std::memory_order_relaxed)) return;
    const int64_t phase = crew_.join(worker);
    if (phase == Crew::kOver) continue;
    function_(context_, worker, phase);
    crew_.finish(worker);
  }
}

}  // namespace octavo
