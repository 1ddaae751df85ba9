// Persistent worker threads that enter a job together, and the meetings at which its phases end.
// Knows nothing of programs or kernels.
//
// A core may be busy with something else when a job begins: the server's front, another program.
// So nobody waits for a worker that has not come yet. It joins at the phase that it finds the
// others in, or misses the job. What a job computes must therefore not depend on who takes part.
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
  Waiting(int num_threads, bool has_core_each);
  // Notes where the worker runs, for those that wait for it.
  void note_core(int worker);
  // Until it notes one again, it has none.
  void forget_core(int worker);
  // Whether `value` differs from `old` before the worker should sleep; with what was written before
  // the change.
  bool changes_in_time(const std::atomic<uint32_t>& value, uint32_t old, int worker);
  // Returns once `value` differs from `old`.
  void await_change(const std::atomic<uint32_t>& value, uint32_t old, int worker);

 private:
  bool shares_core(int worker) const;
  bool leaves_core(int worker);
  int core_of(int worker) const {
    return places_[static_cast<size_t>(worker)].core.load(std::memory_order_relaxed);
  }

  struct alignas(64) Place {
    std::atomic<int> core{-1};
  };
  const int num_threads_;
  const int spin_nanoseconds_;
  std::vector<Place> places_;  // one per worker
};

// The workers in a job. Everything that any of them wrote before a meeting is seen by all after it.
class Crew {
 public:
  static constexpr int64_t kOver = -1;

  Crew(int num_threads, Waiting& waiting) : num_threads_(num_threads), waiting_(waiting) {}
  // A new job with worker 0 alone in it.
  void open();
  // The phase in which the worker enters the job, 0 for the first; kOver if the job has ended.
  int64_t join(int worker);
  // Ends the worker's part in a phase; returns when all members have ended theirs.
  void meet(int worker);
  // Instead of the last meeting. Worker 0 waits for the others and then the job is over.
  void finish(int worker);
  // Returns when all workers of the pool are members.
  void await_all() const;

 private:
  // The member's arrival at the end of a phase, or of the job. Returns that phase and whether it
  // has ended with this.
  struct Arrival {
    uint32_t phase;
    bool was_last;
  };
  Arrival arrive(bool ends_job);

  // phase << 32 | members << 16 | arrived, so that joining and the end of a phase exclude each
  // other. Without members there is no job.
  alignas(64) std::atomic<uint64_t> state_{0};
  alignas(64) std::atomic<uint32_t> phase_{0};  // follows state_: for those who wait
  uint32_t first_phase_ = 0;                    // of this job
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
  Crew& crew() { return crew_; }

  // Calls job(worker, phase) in the caller, as worker 0 with phase 0, and in those workers that
  // come before it has ended, with the phase of their coming; returns when all have returned.
  // Within it they may meet by crew(), and each has to have all meetings from its phase on. Jobs
  // must not throw. Callers of several threads take turns.
  template <typename Job>
  void run(const Job& job) {
    run_erased(&call<Job>, &job, false);
  }
  // The same with all workers, from the start.
  template <typename Job>
  void run_on_all(const Job& job) {
    run_erased(&call<Job>, &job, true);
  }
  // Calls job(0, 0) only, in the caller, without waking anyone.
  template <typename Job>
  void run_alone(const Job& job) {
    const std::lock_guard<std::mutex> turn(callers_);
    const IeeeArithmetic ieee;
    job(0, 0);
  }

 private:
  using Function = void (*)(const void* context, int worker, int64_t phase);
  template <typename Job>
  static void call(const void* context, int worker, int64_t phase) {
    (*static_cast<const Job*>(context))(worker, phase);
  }
  void run_erased(Function function, const void* context, bool on_all);
  void keep_off(int core);
  void work(int worker);
  void stop();

  const int num_threads_;
  const bool has_core_each_;
  Waiting waiting_;
  Crew crew_;
  alignas(64) std::atomic<uint32_t> epoch_{0};  // grows by one for each job
  std::atomic<bool> is_stopping_{false};
  Function function_ = nullptr;  // of members of the crew only, like the next
  const void* context_ = nullptr;
  int callers_core_ = -1;  // the workers keep off it
  std::mutex callers_;
  std::vector<std::thread> threads_;
};

}  // namespace octavo
