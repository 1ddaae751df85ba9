// Checking a program's operands against its arena, and walking it with all workers.
#include "runtime/program.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

#include "formats/activation.h"

namespace octavo {

namespace {

// Holds the bfloat16 panels of half a prompt chunk of 512 tokens and 4864 columns.
constexpr int64_t kScratchBytes = int64_t{8} << 20;
static_assert(kScratchBytes >= kMinScratchBytes);
constexpr int64_t kSharedScratchBytes = int64_t{16} << 20;
// Kernels may read, never write, a whole vector at the end of a value.
constexpr int64_t kSlackBytes = 64;
constexpr int64_t kAlignment = 64;
const char* const kRowKindNames[kNumRowKinds] = {"tokens", "sequences", "logits"};

[[noreturn]] void refuse(const std::string& message) { throw std::invalid_argument(message); }

int64_t arena_bytes(int64_t row_bytes, int64_t max_rows) {
  if (row_bytes < 0 || row_bytes % kAlignment != 0) {
    refuse("arena_row_bytes is " + std::to_string(row_bytes) + "; a multiple of 64 is allowed");
  }
  if (max_rows < 0 || max_rows > INT32_MAX) {
    refuse("max_rows is " + std::to_string(max_rows) + "; 0 to 2147483647 are allowed");
  }
  int64_t bytes;
  if (__builtin_mul_overflow(row_bytes, max_rows, &bytes)) throw std::bad_alloc();
  return bytes + kSlackBytes;
}

void check_columns(const Operand& o) {
  if (o.dtype == DType::kF32) {
    if (o.column_bytes % 4 != 0 || o.column_bytes + int64_t{4} * o.width > o.row_stride) {
      refuse("columns of " + std::to_string(o.width) + " float32 from byte " +
             std::to_string(o.column_bytes) + " do not fit a row_stride of " +
             std::to_string(o.row_stride));
    }
  } else if (o.dtype == DType::kQ8) {
    if (o.width % kGroup != 0 || o.column_bytes != 0 ||
        o.row_stride != activation_row_bytes(o.width)) {
      refuse(
          "a q8 value has a width that is a multiple of 32, no column offset and a row_stride "
          "of activation_row_bytes(width); given width " +
          std::to_string(o.width) + ", column_bytes " + std::to_string(o.column_bytes) +
          ", row_stride " + std::to_string(o.row_stride));
    }
  } else {
    refuse("arena values are float32 or q8; dtype " + std::to_string(static_cast<int>(o.dtype)) +
           " is neither");
  }
}

int64_t nanoseconds_between(std::chrono::steady_clock::time_point from,
                            std::chrono::steady_clock::time_point to) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(to - from).count();
}

}  // namespace

Program::Program(ThreadPool& pool, std::vector<Instruction> instructions, const ArenaShape& shape)
    : pool_(pool),
      instructions_(std::move(instructions)),
      shape_(shape),
      shares_{std::vector<ShareCounter>(static_cast<size_t>(pool.num_threads())),
              std::vector<ShareCounter>(static_cast<size_t>(pool.num_threads()))} {
  for (size_t kind = 0; kind < kNumRowKinds; ++kind) {
    memory_[kind] = MappedMemory(arena_bytes(shape.row_bytes[kind], shape.max_rows[kind]));
    arenas_[kind] = memory_[kind].data();
  }
  for (const Instruction& instruction : instructions_) {
    for (const auto* operands : {&instruction.inputs, &instruction.outputs}) {
      for (const Operand& o : *operands) {
        if (o.kind == OperandKind::kArena) check_operand(o);
        if (o.kind == OperandKind::kKv) {
          const int64_t group = static_cast<const KvLayer*>(o.object)->group;
          num_page_groups_ = std::max(num_page_groups_, group + 1);
        }
      }
    }
  }
  for (int i = 0; i < pool.num_threads(); ++i) scratch_.emplace_back(kScratchBytes);
  shared_scratch_ = MappedMemory(kSharedScratchBytes);
}

void Program::check_operand(const Operand& o) const {
  if (o.kind != OperandKind::kArena) refuse("the operand is not an arena value");
  if (o.width < 1 || o.column_bytes < 0 || o.row_stride < kAlignment ||
      o.row_stride % kAlignment != 0 || o.arena_offset < 0 || o.arena_offset % kAlignment != 0) {
    refuse(
        "an arena value has a positive width, and row_stride and arena_offset that are "
        "multiples of 64; given width " +
        std::to_string(o.width) + ", row_stride " + std::to_string(o.row_stride) +
        ", arena_offset " + std::to_string(o.arena_offset) + ", column_bytes " +
        std::to_string(o.column_bytes));
  }
  const auto kind = static_cast<size_t>(o.row_kind);
  int64_t end;
  if (__builtin_add_overflow(o.arena_offset, o.row_stride, &end) || end > shape_.row_bytes[kind]) {
    refuse("a value at " + std::to_string(o.arena_offset) + " of " + std::to_string(o.row_stride) +
           " bytes per row is outside the arena of " + kRowKindNames[kind] + ", which has " +
           std::to_string(shape_.row_bytes[kind]));
  }
  check_columns(o);
}

void Program::check_step(const StepView& step) const {
  for (int kind = 0; kind < kNumRowKinds; ++kind) {
    check_num_rows(static_cast<RowKind>(kind), step.rows(kind));
  }
  if (step.num_page_groups < num_page_groups_) {
    refuse("a step with pages of " + std::to_string(step.num_page_groups) +
           " groups of layers; the program's layers are of " + std::to_string(num_page_groups_));
  }
}

void Program::check_num_rows(RowKind kind, int64_t num_rows) const {
  const int64_t most = shape_.max_rows[static_cast<size_t>(kind)];
  if (num_rows < 0 || num_rows > most) {
    refuse("a step of " + std::to_string(num_rows) + " rows of " +
           kRowKindNames[static_cast<size_t>(kind)] + "; at most " + std::to_string(most) +
           " are allowed");
  }
}

std::byte* Program::address(const Operand& o, int64_t num_rows) const {
  return arenas_[static_cast<size_t>(o.row_kind)] + o.arena_offset * num_rows + o.column_bytes;
}

void Program::run(const StepView& step, int64_t count, double* seconds) {
  const std::lock_guard<std::mutex> turn(callers_);
  for (std::vector<ShareCounter>& shares : shares_) {
    for (ShareCounter& share : shares) share.has_owner.store(false, std::memory_order_relaxed);
  }
  reset(0, 0);
  pool_.run([&](int worker, int64_t phase) {
    for (std::vector<ShareCounter>& shares : shares_) {
      shares[static_cast<size_t>(worker)].has_owner.store(true, std::memory_order_relaxed);
    }
    walk(step, count, seconds, worker, phase);
  });
}

// Sets a turn's counters to zero. A worker looks after its own, worker 0 after all that are
// nobody's.
void Program::reset(size_t turn, int worker) {
  shares_[turn][static_cast<size_t>(worker)].taken.store(0, std::memory_order_relaxed);
  if (worker != 0) return;
  counters_[turn].value.store(0, std::memory_order_relaxed);
  for (ShareCounter& share : shares_[turn]) {
    if (share.has_owner.load(std::memory_order_relaxed)) continue;
    share.taken.store(0, std::memory_order_relaxed);
  }
}

void Program::walk(const StepView& step, int64_t count, double* seconds, int worker,
                   int64_t first_phase) {
  const MappedMemory& scratch = scratch_[static_cast<size_t>(worker)];
  const bool measures = seconds != nullptr && worker == 0;
  int64_t phase = 0;  // instructions that had rows
  for (int64_t i = 0; i < count; ++i) {
    const Instruction& instruction = instructions_[static_cast<size_t>(i)];
    const auto start =
        measures ? std::chrono::steady_clock::now() : std::chrono::steady_clock::time_point{};
    if (step.rows(static_cast<int>(instruction.rows)) > 0 && phase++ >= first_phase) {
      const auto turn = static_cast<size_t>((phase - 1) % 2);
      // The next instruction's counters were last used before the meeting that all have left.
      reset(turn ^ 1, worker);
      instruction.kernel({instruction, step, arenas_.data(), scratch.data(), scratch.size(),
                          shared_scratch_.data(), shared_scratch_.size(), counters_[turn].value,
                          shares_[turn].data(), worker, pool_.num_threads()});
      // After the last one the workers meet at the end of the job.
      if (i + 1 < count || seconds != nullptr) pool_.crew().meet(worker);
    }
    if (measures) {
      seconds[i] =
          1e-9 * static_cast<double>(nanoseconds_between(start, std::chrono::steady_clock::now()));
    }
  }
}

}  // namespace octavo
