// From rows of logits to tokens and log probabilities, rows spread over the workers. A row's result
// depends on its logits and its SampleRow alone. Knows nothing of requests or sequences.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "octavo/levels.h"
#include "runtime/filter_row.h"
#include "runtime/thread_pool.h"
#include "runtime/token_draw.h"

namespace octavo {

// Values of SampleRow::target that are no token.
inline constexpr int32_t kDraw = -1;        // draw one
inline constexpr int32_t kCandidates = -2;  // choose none: the num_top best to go on with

// One token to draw or to score. Layout = kSampleRowFormat (Python's struct notation).
struct SampleRow {
  uint64_t seed;
  uint64_t position;  // the draw is keyed by (seed, position)
  double top_p;       // 1: all
  double min_p;       // 0: all
  float temperature;  // 0: the most probable
  float repetition_penalty;
  float presence_penalty;
  float frequency_penalty;
  int32_t logit_row;
  int32_t target;   // score this token, or kDraw, or kCandidates
  int32_t top_k;    // below 1: all
  int32_t num_top;  // most probable tokens to report, or -1: no log probabilities at all
  // Ranges of SampleInput::history: the prompt [history_begin, output_begin), then the answer.
  int32_t history_begin, output_begin, history_end;
  // Range of SampleInput::edit_ids and edit_values: added to the logits; -inf bans a token.
  int32_t edits_begin, edits_end;
  int32_t mask;  // row of SampleInput::masks, or -1: every token is allowed
};
inline constexpr const char* kSampleRowFormat = "=QQdd4f4i3i2ii";
static_assert(sizeof(SampleRow) == 88);

struct SampleInput {
  const float* logits;  // [num_logit_rows, vocab_size], row_stride elements apart
  int64_t num_logit_rows;
  int64_t row_stride;
  const SampleRow* rows;
  int64_t num_rows;
  const int32_t* history;
  int64_t history_size;
  const int32_t* edit_ids;
  const float* edit_values;
  int64_t num_edits;
  // [num_masks, mask_words(vocab_size)]: bit i % 32 of word i / 32 allows token i. A token that is
  // not allowed has the logit -inf, before everything else.
  const uint32_t* masks;
  int64_t num_masks;
};

constexpr int64_t mask_words(int64_t vocab_size) { return (vocab_size + 31) / 32; }

// One entry per SampleRow; the last two have max_top columns, -1 and -inf where there is no token.
// Log probabilities are the log softmax of the logits as given. To those of candidates the edits
// and penalties are applied, as to a score, without making them probabilities again.
struct SampleOutput {
  int32_t* token_ids;  // of candidates: the best
  int32_t* ranks;      // 1 = most probable; ties by rising id. 0 where not asked for
  double* logprobs;
  int32_t* top_ids;
  double* top_logprobs;
  int64_t max_top;
  // One entry per FilterRow: the bits of surprise of the drawn token among those kept, 0 if greedy.
  double* surprises;
};

class Sampler {
 public:
  // Throws std::invalid_argument for a vocab_size outside 1 .. 2^31 - 1. The pool must outlive it.
  Sampler(ThreadPool& pool, const RowPasses& passes, int64_t vocab_size);
  ~Sampler();
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;

  int64_t vocab_size() const { return vocab_size_; }
  // Throws std::invalid_argument when a row points outside the other arrays or the vocabulary.
  void check(const SampleInput& input) const;
  void check_filters(const SampleInput& input, const FilterInput& filters) const;
  // Takes memory where a row's history is longer than any before it, before anything is computed.
  // Returns how many rows had no logit above -inf; their token is 0. Callers take turns.
  int64_t run(const SampleInput& input, const FilterInput& filters, const SampleOutput& output);

 private:
  struct Worker;
  const int64_t vocab_size_;
  ThreadPool& pool_;
  std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace octavo
