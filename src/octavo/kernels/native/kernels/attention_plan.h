// How the attention of a step is cut into work items: units (some queries of one sequence that
// share a key/value head) and pieces of their context. Knows nothing of keys or values; the result
// must not depend on what it decides.
#pragma once

#include <cstdint>

#include "kernels/attention_piece.h"
#include "octavo/step_view.h"

namespace octavo::OCTAVO_LEVEL {

// Up to kQueryBlock queries; query i of a sequence is head i % group of its row i / group.
struct Unit {
  int64_t kv_head;
  int64_t first_query;
  int num_queries;
};

// What does not change while a step's attention is computed.
struct AttentionShape {
  int64_t group;  // query heads per key/value head
  int64_t num_kv_heads;
  int64_t head_dim;
  AttentionRule rule;
  int64_t shared_bytes;  // shared scratch that partial results may take
  int64_t num_workers;

  // Of a unit, counted from the first of its sequence.
  Span rows_of(const Unit& unit) const {
    return {static_cast<int>(unit.first_query / group),
            static_cast<int>((unit.first_query + unit.num_queries - 1) / group) + 1};
  }
};

// The rows of a sequence, as units and pieces of context.
struct SequenceSize {
  int64_t num_queries = 0;  // per key/value head
  int64_t num_blocks = 0;   // units per key/value head
  int64_t first_piece = 0;  // pieces that any row of the sequence sees
  int64_t num_pieces = 0;
};

inline SequenceSize size_of(const StepView& step, int32_t sequence, const AttentionShape& shape) {
  const int64_t first_row = step.query_starts[sequence], end = step.query_starts[sequence + 1];
  if (first_row == end) return {};
  SequenceSize size;
  size.num_queries = (end - first_row) * shape.group;
  size.num_blocks = (size.num_queries + kQueryBlock - 1) / kQueryBlock;
  size.first_piece = shape.rule.first_visible(step.positions[first_row]) / kAttentionPiece;
  size.num_pieces = step.positions[end - 1] / kAttentionPiece + 1 - size.first_piece;
  return size;
}

// The work on one sequence. Split: an item is one piece of one unit, and each unit is merged once
// all items of the step are done. Not split: an item is a unit.
struct SequenceWork : SequenceSize {
  int32_t sequence = 0;
  int64_t first_row = 0;
  bool split = false;
  int64_t first_item = 0, num_items = 0;
  int64_t first_merge = 0, num_merges = 0;
  int64_t partials = 0;  // where in the shared scratch; [unit][piece]

  // Blocks of late rows first, since they see most.
  Unit unit(int64_t index) const {
    const int64_t first = (num_blocks - 1 - index % num_blocks) * kQueryBlock;
    const int64_t left = num_queries - first;
    return {index / num_blocks, first, static_cast<int>(left < kQueryBlock ? left : kQueryBlock)};
  }
};

// Walks the sequences, last to first: prompt chunks, which are heavy, come after decodes in a step.
// Every worker walks by itself and comes to the same plan. Items must be sought in ascending order.
class WorkCursor {
 public:
  WorkCursor(const StepView& step, const AttentionShape& shape)
      : step_(step), shape_(shape), next_(step.num_sequences) {
    for (int32_t s = 0; s < step.num_sequences; ++s) {
      const SequenceSize size = size_of(step, s, shape);
      total_pieces_ += size.num_blocks * shape.num_kv_heads * size.num_pieces;
    }
  }

  const SequenceWork& work() const { return work_; }
  int64_t end_item() const { return work_.first_item + work_.num_items; }
  int64_t end_merge() const { return work_.first_merge + work_.num_merges; }

  // Moves to the sequence of this item; false when there are only end_item() items.
  bool seek_item(int64_t item) {
    while (item >= end_item()) {
      if (!advance()) return false;
    }
    return true;
  }
  bool seek_merge(int64_t merge) {
    while (merge >= end_merge()) {
      if (!advance()) return false;
    }
    return true;
  }

 private:
  // More blocks than this are not split: partial results would take much memory.
  static constexpr int64_t kMaxSplitBlocks = 4;
  // Units of so small a part of a worker's share leave no worker idle for long.
  static constexpr int64_t kFineUnits = 8;

  bool advance() {
    if (next_ == 0) return false;
    SequenceWork w;
    w.sequence = --next_;
    w.first_row = step_.query_starts[w.sequence];
    w.first_item = end_item();
    w.first_merge = end_merge();
    w.partials = shared_used_;
    lay_out(w);
    work_ = w;
    return true;
  }

  void lay_out(SequenceWork& w) {
    static_cast<SequenceSize&>(w) = size_of(step_, w.sequence, shape_);
    const int64_t units = w.num_blocks * shape_.num_kv_heads;
    const int64_t bytes = units * w.num_pieces * partial_bytes(shape_.head_dim);
    w.split = w.num_pieces > 1 && w.num_blocks <= kMaxSplitBlocks &&
              w.num_pieces * kFineUnits * shape_.num_workers > total_pieces_ &&
              shared_used_ + bytes <= shape_.shared_bytes;
    w.num_items = w.split ? units * w.num_pieces : units;
    w.num_merges = w.split ? units : 0;
    shared_used_ += w.split ? bytes : 0;
  }

  const StepView& step_;
  const AttentionShape& shape_;
  int32_t next_;
  int64_t total_pieces_ = 0;  // of all units
  int64_t shared_used_ = 0;
  SequenceWork work_;
};

}  // namespace octavo::OCTAVO_LEVEL
