// Persistent worker threads that enter a job together, and the barrier at which they meet inside
// it. Knows nothing of programs or kernels.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace octavo {

// A barrier for a fixed number of threads. Waiters spin briefly, because the others are usually a
// microsecond away, and then sleep: the core that a late thread lost may be the one a waiter burns.
class Barrier {
 public:
  Barrier(int num_threads, int spin_nanoseconds)
      : num_threads_(num_threads), spin_nanoseconds_(spin_nanoseconds) {}
  // Everything that any thread wrote before it arrived is seen by all after they leave.
  void wait();

 private:
  alignas(64) std::atomic<int32_t> num_arrived_{0};
  alignas(64) std::atomic<uint32_t> phase_{0};
  const int num_threads_;
  const int spin_nanoseconds_;
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
  void run(Job&& job) {
    run_erased([](void* context, int worker) { (*static_cast<Job*>(context))(worker); }, &job);
  }

 private:
  using Function = void (*)(void* context, int worker);
  void run_erased(Function function, void* context);
  void work(int worker);
  void stop();

  const int num_threads_;
  const int spin_nanoseconds_;
  Barrier barrier_;
  alignas(64) std::atomic<uint32_t> epoch_{0};  // grows by one for each job
  Function function_ = nullptr;                 // null tells the workers to end
  void* context_ = nullptr;
  std::mutex callers_;
  std::vector<std::thread> threads_;
};

}  // namespace octavo
