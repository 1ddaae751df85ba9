// What one worker takes of a step's attention: pieces of units, as jobs in a queue that reaches so
// far ahead that their pages can be fetched before they are needed. Knows nothing of what pages
// hold.
#pragma once

#include <sched.h>

#include <cstdint>

#include "kernels/attention_plan.h"
#include "octavo/program.h"

namespace octavo::OCTAVO_LEVEL {

// One piece of the context of one unit.
struct Job {
  SequenceWork work;
  int64_t unit_index;
  Unit unit;
  int64_t piece;                       // of the sequence's context
  bool begins, ends;                   // the unit's pieces, unless they are split among workers
  int64_t split_piece;                 // of work.num_pieces
  Span pages;                          // that any query sees; may be empty
  const std::byte* keys[kPiecePages];  // of those; values: page_half_bytes later

  int num_halves() const { return pages.empty() ? 0 : 2 * (pages.end - pages.begin); }
};

// The instruction's counter counts items taken in its low half and, in its high half, items done.
constexpr int64_t kItemDone = int64_t{1} << 32;

inline int64_t take_item(const KernelCall& call) { return call.next_item() & (kItemDone - 1); }

inline void finish_item(const KernelCall& call) {
  call.counter.fetch_add(kItemDone, std::memory_order_release);
}

// The workers still at an item need no help from this one, so the wait ends.
inline void wait_for_items(const KernelCall& call, int64_t num_items) {
  while (call.counter.load(std::memory_order_acquire) / kItemDone < num_items) sched_yield();
}

// The jobs of one worker, item by item.
class JobStream {
 public:
  JobStream(const KernelCall& call, const AttentionShape& shape, const KvLayer& kv)
      : call_(call), shape_(shape), kv_(kv), cursor_(call.step, shape), num_items_(0) {
    WorkCursor all(call.step, shape);
    while (all.seek_item(num_items_)) num_items_ = all.end_item();
    num_merges_ = all.end_merge();
  }

  int64_t num_items() const { return num_items_; }
  int64_t num_merges() const { return num_merges_; }
  // The first item taken that is none.
  int64_t end_item() const { return item_; }

  // Whether the next job may be taken before others are done: workers wait for the last items.
  bool may_look_ahead() const {
    if (piece_ < last_piece_) return true;
    const int64_t taken = call_.counter.load(std::memory_order_relaxed) & (kItemDone - 1);
    return taken + call_.num_workers < num_items_;
  }

  // False when no item is left.
  bool next(Job& job) {
    if (piece_ < last_piece_) {
      ++piece_;
    } else if (!next_item()) {
      return false;
    }
    job.work = cursor_.work();
    job.unit_index = unit_index_;
    job.unit = unit_;
    job.piece = piece_;
    job.begins = piece_ == first_piece_;
    job.ends = piece_ == last_piece_;
    job.split_piece = piece_ - job.work.first_piece;
    job.pages = visible_pages();
    find_keys(job);
    return true;
  }

 private:
  bool next_item() {
    if (item_ >= num_items_) return false;
    item_ = take_item(call_);
    if (!cursor_.seek_item(item_)) return false;
    const SequenceWork& work = cursor_.work();
    const int64_t index = item_ - work.first_item;
    unit_index_ = work.split ? index / work.num_pieces : index;
    unit_ = work.unit(unit_index_);
    if (work.split) {
      first_piece_ = last_piece_ = work.first_piece + index % work.num_pieces;
    } else {
      const Span rows = shape_.rows_of(unit_);
      const int32_t* positions = call_.step.positions + work.first_row;
      first_piece_ = shape_.rule.first_visible(positions[rows.begin]) / kAttentionPiece;
      last_piece_ = positions[rows.end - 1] / kAttentionPiece;
    }
    piece_ = first_piece_;
    return true;
  }

  Span visible_pages() const {
    const Span rows = shape_.rows_of(unit_);
    const int32_t* positions = call_.step.positions + cursor_.work().first_row;
    Span all = {kPiecePages, 0};
    for (int row = rows.begin; row < rows.end; ++row) {
      const Span tokens = shape_.rule.visible(positions[row], piece_);
      if (tokens.empty()) continue;
      const Span pages = pages_of(tokens);
      all = {min_int(all.begin, pages.begin), max_int(all.end, pages.end)};
    }
    return all;
  }

  void find_keys(Job& job) const {
    const StepView& step = call_.step;
    const int32_t* table = step.page_tables + job.work.sequence * step.page_table_stride +
                           job.piece * kPiecePages * step.num_page_groups + kv_.group;
    const std::byte* const head =
        kv_.data + job.unit.kv_head * 2 * page_half_bytes(kv_.dtype, kv_.head_dim);
    for (int page = job.pages.begin; page < job.pages.end; ++page) {
      job.keys[page] = head + table[page * step.num_page_groups] * kv_.page_bytes;
    }
  }

  const KernelCall& call_;
  const AttentionShape& shape_;
  const KvLayer& kv_;
  WorkCursor cursor_;
  int64_t num_items_, num_merges_;
  int64_t item_ = 0;
  int64_t unit_index_ = 0, first_piece_ = 0, piece_ = 0, last_piece_ = 0;
  Unit unit_ = {};
};

// So many halves, in the order in which they are read, are fetched before they are needed: as far
// as a full piece's keys are before its values.
inline constexpr int kHalvesAhead = kPiecePages;

// A worker's job in hand, and those that it has taken ahead of need so as to fetch their pages.
class JobQueue {
 public:
  JobQueue(const KernelCall& call, const AttentionShape& shape, const KvLayer& kv)
      : stream_(call, shape, kv), half_bytes_(page_half_bytes(kv.dtype, kv.head_dim)) {}

  int64_t num_items() const { return stream_.num_items(); }
  int64_t num_merges() const { return stream_.num_merges(); }
  int64_t end_item() const { return stream_.end_item(); }

  int size() const { return size_; }
  const Job& operator[](int i) const { return jobs_[(first_ + i) % kMostJobs]; }

  // Takes as many jobs as may be and are wanted. False when none is left.
  bool fill() {
    if (size_ == 0 && !take()) return false;
    while (size_ < kMostJobs && num_halves_ - (*this)[0].num_halves() < kHalvesAhead &&
           stream_.may_look_ahead() && take()) {
    }
    return true;
  }

  // The first job is done.
  void pop() {
    const int halves = (*this)[0].num_halves();
    num_halves_ -= halves;
    num_fetched_ = max_int(num_fetched_ - halves, 0);
    fetch_half_ = fetch_job_ == 0 ? 0 : fetch_half_;
    fetch_job_ = max_int(fetch_job_ - 1, 0);
    first_ = (first_ + 1) % kMostJobs;
    --size_;
  }

  // Halves of all jobs here, from the first one's on, that have been given out to be fetched.
  int num_fetched() const { return num_fetched_; }
  bool more_to_fetch() const { return num_fetched_ < num_halves_; }
  const std::byte* next_to_fetch() {
    ++num_fetched_;
    while (fetch_half_ >= (*this)[fetch_job_].num_halves()) {
      ++fetch_job_;
      fetch_half_ = 0;
    }
    const Job& job = (*this)[fetch_job_];
    const int page = job.pages.begin + fetch_half_++;
    const int num_pages = job.pages.end - job.pages.begin;
    return page < job.pages.end ? job.keys[page] : job.keys[page - num_pages] + half_bytes_;
  }

 private:
  static constexpr int kMostJobs = 4;

  bool take() {
    Job& job = jobs_[(first_ + size_) % kMostJobs];
    if (!stream_.next(job)) return false;
    ++size_;
    num_halves_ += job.num_halves();
    return true;
  }

  JobStream stream_;
  const int64_t half_bytes_;
  Job jobs_[kMostJobs];
  int first_ = 0, size_ = 0;
  int num_halves_ = 0, num_fetched_ = 0;
  int fetch_job_ = 0, fetch_half_ = 0;  // where the next to fetch is
};

}  // namespace octavo::OCTAVO_LEVEL
