// Persistent worker threads that enter a job together, and the barrier at which they meet inside
// it. Knows nothing of programs or kernels.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace octavo {

// How the threads of one pool wait for each other. They spin briefly, because the others are
// usually a microsecond away, and then sleep: the core that a late thread lost may be the one that
// a waiter burns.
class Waiting {
 public:
  explicit Waiting(int num_threads);
  // Notes where the worker runs, for those that wait for it.
  void note_core(int worker);
  // Returns once `value` differs from `old`, with what was written before the change.
  void await_change(const std::atomic<uint32_t>& value, uint32_t old, int worker);

 private:
  bool shares_core(int worker) const;

  struct alignas(64) Place {
    std::atomic<int> core{-1};
  };
  const int spin_nanoseconds_;
  std::vector<Place> places_;  // one per worker
};

// A barrier for a fixed number of threads. Everything that any of them wrote before it arrived is
// seen by all after they leave.
class Barrier {
 public:
  Barrier(int num_threads, Waiting& waiting) : num_threads_(num_threads), waiting_(waiting) {}
  void wait(int worker);

 private:
  alignas(64) std::atomic<int32_t> num_arrived_{0};
  alignas(64) std::atomic<uint32_t> phase_{0};
  const int num_threads_;
  Waiting& waiting_;
};

// Rounding to nearest and gradual underflow in this thread while it lives, whatever the calling
// program has set: a row's result must not depend on who computed it.
class IeeeArithmetic {
 public:
  IeeeArithmetic();
  ~IeeeArithmetic();
  IeeeArithmetic(const IeeeArithmetic&) = delete;
  IeeeArithmetic& operator=(const IeeeArithmetic&) = delete;

 private:
  unsigned saved_;
};

class ThreadPool {
 public:
  static constexpr int kMaxThreads = 1024;

  // Throws std::invalid_argument outside 1 .. kMaxThreads. The thread that calls run() is worker 0.
  explicit ThreadPool(int num_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int num_threads() const { return num_threads_; }
  Barrier& barrier() { return barrier_; }

  // Calls job(worker) once on every worker and returns when all have returned. Jobs must not throw.
  // Callers of several threads take turns.
  template <typename Job>
  void run(const Job& job) {
    run_erased([](const void* context, int worker) { (*static_cast<const Job*>(context))(worker); },
               &job);
  }
  // Calls job(0) only, in the caller, without waking anyone.
  template <typename Job>
  void run_alone(const Job& job) {
    const std::lock_guard<std::mutex> turn(callers_);
    const IeeeArithmetic ieee;
    job(0);
  }

 private:
  using Function = void (*)(const void* context, int worker);
  void run_erased(Function function, const void* context);
  void work(int worker);
  void stop();

  const int num_threads_;
  Waiting waiting_;
  Barrier barrier_;
  alignas(64) std::atomic<uint32_t> epoch_{0};  // grows by one for each job
  Function function_ = nullptr;                 // null tells the workers to end
  const void* context_ = nullptr;
  std::mutex callers_;
  std::vector<std::thread> threads_;
};

}  // namespace octavo
