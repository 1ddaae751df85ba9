// A program: a flat list of instructions, recorded once by Python, walked by all threads each step.
// What an instruction is, how its operands find their memory, and what a kernel is given.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "octavo/step_view.h"
#include "octavo/types.h"

namespace octavo {

enum class OperandKind : uint8_t {
  kNone = 0,
  kArena = 1,   // an activation, [rows of row_kind, width]
  kMatrix = 2,  // object is a const PackedMatrix*
  kVector = 3,  // object is a const float*, width elements
  kKv = 4,      // object is a const KvLayer*
};

struct Operand {
  OperandKind kind = OperandKind::kNone;
  RowKind row_kind = RowKind::kTokens;
  DType dtype = DType::kF32;
  int32_t width = 0;  // elements per row that this operand shows
  // Arena address of row r: arena[row_kind] + arena_offset * rows + column_bytes + r * row_stride.
  // arena_offset is in bytes per row, so that a value is dense for one row and for two thousand.
  int64_t arena_offset = 0;
  int64_t column_bytes = 0;  // where a view of some columns begins
  int64_t row_stride = 0;    // bytes; a multiple of 64 (of the whole value, also for a view)
  const void* object = nullptr;
};

struct KernelCall;
using KernelFunction = void (*)(const KernelCall&);

struct Instruction {
  KernelFunction kernel = nullptr;
  RowKind rows = RowKind::kTokens;  // the row kind that the work is counted in
  std::vector<Operand> inputs;
  std::vector<Operand> outputs;
  std::vector<int64_t> ints;  // small constants, meaning fixed by the kernel
  std::vector<float> floats;
};

// How many work items of one worker's share have been taken, in a cache line of its own. Without an
// owner in the job nobody else must rely on his doing what is left.
struct alignas(64) ShareCounter {
  std::atomic<int64_t> taken{0};
  std::atomic<bool> has_owner{false};
};

// What one worker gets for one instruction. Kernels neither allocate nor throw.
struct KernelCall {
  const Instruction& instruction;
  const StepView& step;
  std::byte* const* arenas;   // [kNumRowKinds]
  std::byte* scratch;         // this worker's own memory
  int64_t scratch_bytes;      // at least kMinScratchBytes
  std::byte* shared_scratch;  // one for all workers of this program
  int64_t shared_scratch_bytes;
  std::atomic<int64_t>& counter;  // starts at 0 for each instruction; take work items from it
  ShareCounter* shares;           // [num_workers], each starts at 0 for each instruction
  int worker;
  int num_workers;

  int32_t rows() const { return step.rows(static_cast<int>(instruction.rows)); }

  std::byte* address(const Operand& o) const {
    const int kind = static_cast<int>(o.row_kind);
    return arenas[kind] + o.arena_offset * step.rows(kind) + o.column_bytes;
  }
  template <typename T>
  T* row(const Operand& o, int64_t r) const {
    return reinterpret_cast<T*>(address(o) + r * o.row_stride);
  }
  const PackedMatrix& matrix(const Operand& o) const {
    return *static_cast<const PackedMatrix*>(o.object);
  }
  const float* vector(const Operand& o) const { return static_cast<const float*>(o.object); }
  const KvLayer& kv(const Operand& o) const { return *static_cast<const KvLayer*>(o.object); }
  // The next of `items` work items, or `items` when none is left. Each worker has a share, the same
  // part of the items in every instruction: where cores share no cache, a line that another has
  // written takes 170 ns to arrive, and so rows of one part are written and read by one core. A
  // worker whose share is done takes from the others'. With `leaves_last` it leaves the last few to
  // an owner who is there: he would have done them as soon, and the next instruction would have to
  // fetch what they leave behind.
  int64_t next_of(int64_t items, bool leaves_last = true) const {
    for (int i = 0; i < num_workers; ++i) {
      const int owner = worker + i < num_workers ? worker + i : worker + i - num_workers;
      const int64_t first = owner * items / num_workers, last = (owner + 1) * items / num_workers;
      const bool leaves =
          i > 0 && leaves_last && shares[owner].has_owner.load(std::memory_order_relaxed);
      const int64_t left = leaves ? 1 + (last - first) / 16 : 0;
      std::atomic<int64_t>& taken = shares[owner].taken;
      if (first + taken.load(std::memory_order_relaxed) >= last - left) continue;
      const int64_t item = first + taken.fetch_add(1, std::memory_order_relaxed);
      if (item < last) return item;
    }
    return items;
  }
  // The next work item in one order for all, or a number >= the count of items when none is left.
  int64_t next_item() const { return counter.fetch_add(1, std::memory_order_relaxed); }
};

// Room for a panel of float activations of kMaxFloatColumns in each of their two forms.
inline constexpr int64_t kMinScratchBytes = int64_t{6} << 20;
inline constexpr int64_t kMaxFloatColumns = 1 << 16;

// One instruction set's kernels. Filled by register_kernels() of each level's copy of kernels/*.cc.
struct KernelEntry {
  const char* name;
  KernelFunction function;
};

}  // namespace octavo
