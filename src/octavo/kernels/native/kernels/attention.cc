// Kernel `attention`: causal, grouped-query attention through page tables, of any mix of prompt
// chunks and single new tokens (arXiv:2309.06180), with the softmax taken piece by piece
// (arXiv:1805.02867). attention_piece.h owns the arithmetic, attention_plan.h the sharing of work.
#include <sched.h>

#include "kernels/attention_piece.h"
#include "kernels/attention_plan.h"
#include "kernels/hadamard.h"
#include "octavo/program.h"

namespace octavo::OCTAVO_LEVEL {
namespace {

// The instruction's counter counts items taken in its low half and, in its high half, items done.
constexpr int64_t kItemDone = int64_t{1} << 32;

int64_t take_item(const KernelCall& call) { return call.next_item() & (kItemDone - 1); }

void finish_item(const KernelCall& call) {
  call.counter.fetch_add(kItemDone, std::memory_order_release);
}

// The workers still at an item need no help from this one, so the wait ends.
void wait_for_items(const KernelCall& call, int64_t num_items) {
  while (call.counter.load(std::memory_order_acquire) / kItemDone < num_items) sched_yield();
}

// A worker's own memory, and the queries it holds at the moment.
class Workspace {
 public:
  Workspace(const KernelCall& call, int64_t head_dim) {
    std::byte* next = call.scratch;
    const auto take = [&next](int64_t bytes) {
      std::byte* const taken = next;
      next += (bytes + 63) / 64 * 64;
      return taken;
    };
    queries = reinterpret_cast<float*>(take(kQueryBlock * kQueryStride * 4));
    scores = reinterpret_cast<float*>(take(kQueryBlock * kScoreStride * 4));
    total = reinterpret_cast<Partial*>(take(partial_bytes(head_dim)));
    piece = reinterpret_cast<Partial*>(take(partial_bytes(head_dim)));
  }

  float* queries;  // [kQueryBlock][kQueryStride], as PieceWork wants them
  float* scores;   // [kQueryBlock][kScoreStride]
  Partial* total;
  Partial* piece;
  int32_t positions[kQueryBlock];
};

template <class T>
class Attention {
 public:
  explicit Attention(const KernelCall& call)
      : call_(call),
        query_(call.instruction.inputs[0]),
        output_(call.instruction.outputs[0]),
        kv_(call.kv(call.instruction.inputs[1])),
        shape_{call.instruction.ints[0] / call.instruction.ints[1],
               call.instruction.ints[1],
               call.instruction.ints[2],
               {call.instruction.ints[3], call.instruction.floats[0], call.instruction.floats[1]},
               call.shared_scratch_bytes},
        own_(call, shape_.head_dim) {}

  void run() {
    WorkCursor cursor(call_.step, shape_);
    int64_t item = take_item(call_);
    for (; cursor.seek_item(item); item = take_item(call_)) {
      run_item(cursor.work(), item - cursor.work().first_item);
      finish_item(call_);
    }
    const int64_t num_items = cursor.end_item();
    if (item - num_items >= cursor.end_merge()) return;
    wait_for_items(call_, num_items);
    WorkCursor merges(call_.step, shape_);
    for (; merges.seek_merge(item - num_items); item = take_item(call_)) {
      merge_unit(merges.work(), item - num_items - merges.work().first_merge);
    }
  }

 private:
  void run_item(const SequenceWork& work, int64_t index) {
    if (work.split) {
      const int64_t piece = index % work.num_pieces, unit = index / work.num_pieces;
      load_queries(work, work.unit(unit));
      run_piece(work, work.unit(unit), work.first_piece + piece, stored(work, unit, piece));
      return;
    }
    const Unit unit = work.unit(index);
    load_queries(work, unit);
    clear(*own_.total, shape_.head_dim);
    const int64_t first = shape_.rule.first_visible(own_.positions[0]) / kAttentionPiece;
    const int64_t last = own_.positions[unit.num_queries - 1] / kAttentionPiece;
    for (int64_t piece = first; piece <= last; ++piece) {
      run_piece(work, unit, piece, *own_.piece);
      merge(*own_.total, *own_.piece, unit.num_queries, shape_.head_dim);
    }
    write_output(work, unit);
  }

  void merge_unit(const SequenceWork& work, int64_t index) {
    const Unit unit = work.unit(index);
    clear(*own_.total, shape_.head_dim);
    for (int64_t piece = 0; piece < work.num_pieces; ++piece) {
      merge(*own_.total, stored(work, index, piece), unit.num_queries, shape_.head_dim);
    }
    write_output(work, unit);
  }

  Partial& stored(const SequenceWork& work, int64_t unit, int64_t piece) const {
    const int64_t index = unit * work.num_pieces + piece;
    return *reinterpret_cast<Partial*>(call_.shared_scratch + work.partials +
                                       index * partial_bytes(shape_.head_dim));
  }

  // Row and first column, in q and in the output, of query n of a unit.
  int64_t row_of(const SequenceWork& work, const Unit& unit, int n) const {
    return work.first_row + (unit.first_query + n) / shape_.group;
  }
  int64_t column_of(const Unit& unit, int n) const {
    const int64_t head = unit.kv_head * shape_.group + (unit.first_query + n) % shape_.group;
    return head * shape_.head_dim;
  }

  void load_queries(const SequenceWork& work, const Unit& unit) {
    // Int8 keys are transformed; the factor makes good for that of both sides, exactly.
    const int64_t size = kHasScales<T> ? hadamard_size(shape_.head_dim) : 1;
    const F32x16 factor = splat(shape_.rule.query_factor() / static_cast<float>(size));
    for (int n = 0; n < unit.num_queries; ++n) {
      const int64_t row = row_of(work, unit, n);
      const float* q = call_.row<float>(query_, row) + column_of(unit, n);
      own_.positions[n] = call_.step.positions[row];
      float* loaded = own_.queries + n * kQueryStride;
      for (int64_t d = 0; d < shape_.head_dim; d += kLanes) store(loaded + d, load(q + d) * factor);
      if constexpr (kHasScales<T>) hadamard(loaded, shape_.head_dim);
    }
  }

  void run_piece(const SequenceWork& work, const Unit& unit, int64_t piece, Partial& out) {
    PieceWork<T> p;
    p.head_dim = static_cast<int>(shape_.head_dim);
    p.queries = own_.queries;
    p.scores = own_.scores;
    p.pages = {kPiecePages, 0};
    for (int n = 0; n < unit.num_queries; ++n) {
      p.visible[n] = shape_.rule.visible(own_.positions[n], piece);
      if (p.visible[n].empty()) continue;
      const Span pages = pages_of(p.visible[n]);
      p.pages = {min_int(p.pages.begin, pages.begin), max_int(p.pages.end, pages.end)};
    }
    if (p.pages.empty()) return clear(out, shape_.head_dim);
    const int32_t* table =
        call_.step.page_tables + work.sequence * call_.step.page_table_stride + piece * kPiecePages;
    for (int page = p.pages.begin; page < p.pages.end; ++page) {
      const PageHead<T> head = page_head<T>(kv_, table[page], unit.kv_head);
      p.keys[page] = head.keys;
      p.values[page] = head.values;
    }
    attend(unit.num_queries, p, shape_.rule, out);
  }

  void write_output(const SequenceWork& work, const Unit& unit) const {
    for (int n = 0; n < unit.num_queries; ++n) {
      float* y = call_.row<float>(output_, row_of(work, unit, n)) + column_of(unit, n);
      const float* values = own_.total->values() + n * shape_.head_dim;
      const F32x16 factor = splat(1.0f / own_.total->sum[n]);
      for (int64_t d = 0; d < shape_.head_dim; d += kLanes) store(y + d, load(values + d) * factor);
    }
  }

  const KernelCall& call_;
  const Operand& query_;
  const Operand& output_;
  const KvLayer& kv_;
  const AttentionShape shape_;
  Workspace own_;
};

}  // namespace

void attention(const KernelCall& call) {
  with_element(call.kv(call.instruction.inputs[1]).dtype,
               [&call]<class T>(T*) { Attention<T>(call).run(); });
}

}  // namespace octavo::OCTAVO_LEVEL
