// A program bound to its memory: the instruction list, an arena per row kind, scratch, and the
// walk. Knows no kernel by name and no model.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "octavo/program.h"
#include "runtime/memory.h"
#include "runtime/thread_pool.h"

namespace octavo {

// For each row kind: bytes that one row's values take together, and the most rows of a step.
struct ArenaShape {
  std::array<int64_t, kNumRowKinds> row_bytes;
  std::array<int64_t, kNumRowKinds> max_rows;
};

class Program {
 public:
  // Throws std::invalid_argument when an operand does not fit `shape`. Objects of operands, and the
  // pool, must outlive the program.
  Program(ThreadPool& pool, std::vector<Instruction> instructions, const ArenaShape& shape);

  int64_t num_instructions() const { return static_cast<int64_t>(instructions_.size()); }
  // The first `count` instructions. `step` must be within max_rows. When `seconds` is given, it
  // receives the time of each of them. Several callers take turns.
  void run(const StepView& step, int64_t count, double* seconds = nullptr);
  // Throws std::invalid_argument when `step` has more rows than max_rows, or no pages of a layer's
  // group.
  void check_step(const StepView& step) const;
  void check_num_rows(RowKind kind, int64_t num_rows) const;
  // Throws std::invalid_argument when `operand` is no arena value within this program's arena.
  void check_operand(const Operand& operand) const;
  // Where row 0 of `operand` is in a step of `num_rows` rows.
  std::byte* address(const Operand& operand, int64_t num_rows) const;

 private:
  void reset(size_t turn, int worker);
  void walk(const StepView& step, int64_t count, double* seconds, int worker, int64_t first_phase);

  ThreadPool& pool_;
  std::mutex callers_;
  const std::vector<Instruction> instructions_;
  const ArenaShape shape_;
  int64_t num_page_groups_ = 0;  // that the layers of this program are of
  std::array<MappedMemory, kNumRowKinds> memory_;
  std::array<std::byte*, kNumRowKinds> arenas_;
  std::vector<MappedMemory> scratch_;  // one per worker
  MappedMemory shared_scratch_;
  // Two, so that one is set back to zero while the other is in use.
  struct alignas(64) Counter {
    std::atomic<int64_t> value{0};
  };
  std::array<Counter, 2> counters_;
  std::array<std::vector<ShareCounter>, 2> shares_;  // [turn][worker]
};

}  // namespace octavo
