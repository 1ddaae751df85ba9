// Adjusting logits by penalties and biases, drawing or scoring, and log probabilities.
#include "runtime/sampler.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

#include "runtime/dry_penalty.h"
#include "runtime/philox.h"
#include "runtime/token_filters.h"
#include "runtime/zeroed_array.h"

namespace octavo {

namespace {

// Below this many logits, waking the other workers takes longer than doing their share.
constexpr int64_t kMinSharedLogits = int64_t{1} << 18;

[[noreturn]] void refuse(const std::string& message) { throw std::invalid_argument(message); }

void check_range(const char* what, int64_t begin, int64_t end, int64_t size) {
  if (begin >= 0 && begin <= end && end <= size) return;
  refuse(std::string(what) + " [" + std::to_string(begin) + ", " + std::to_string(end) + ") of " +
         std::to_string(size));
}

void check_ids(const char* what, const int32_t* ids, int64_t count, int64_t vocab_size) {
  for (int64_t i = 0; i < count; ++i) {
    if (ids[i] >= 0 && ids[i] < vocab_size) continue;
    refuse(std::string(what) + " holds token " + std::to_string(ids[i]) + " of a vocabulary of " +
           std::to_string(vocab_size));
  }
}

// Each of them is some tokens and then -1.
void check_breakers(const int32_t* ids, int64_t count, int64_t vocab_size) {
  for (int64_t begin = 0, i = 0; i < count; begin = ++i) {
    while (i < count && ids[i] >= 0) ++i;
    if (i == begin || i == count) refuse("a sequence breaker is empty or cut short");
    check_ids("sequence breaker", ids + begin, i - begin, vocab_size);
  }
}

bool is_penalised(const SampleRow& row) {
  return row.history_begin < row.history_end &&
         (row.repetition_penalty != 1 || row.presence_penalty != 0 || row.frequency_penalty != 0);
}

const FilterRow* filter_of(const FilterInput& filters, int64_t row) {
  const FilterRow* end = filters.rows + filters.num_rows;
  const FilterRow* found = std::lower_bound(
      filters.rows, end, row, [](const FilterRow& filter, int64_t at) { return filter.row < at; });
  return found != end && found->row == row ? found : nullptr;
}

bool has_dry(const FilterRow* filter) { return filter != nullptr && filter->dry_multiplier > 0; }

bool is_adjusted(const SampleRow& row, const FilterRow* filter) {
  return row.mask >= 0 || row.edits_begin != row.edits_end || is_penalised(row) || has_dry(filter);
}

// Whether it takes more to draw than the usual filters.
bool is_filtered(const FilterRow* filter) {
  return filter != nullptr &&
         (filter->top_n_sigma > 0 || filter->dynatemp_range > 0 || filter->typical_p < 1 ||
          filter->xtc_probability > 0 || filter->mirostat_mu < INFINITY);
}

// The most probable tokens of one row of output, empty at first.
class TopColumns {
 public:
  TopColumns(const SampleOutput& output, int64_t index)
      : ids_(output.top_ids + index * output.max_top),
        logprobs_(output.top_logprobs + index * output.max_top) {
    std::fill_n(ids_, output.max_top, -1);
    std::fill_n(logprobs_, output.max_top, -static_cast<double>(INFINITY));
  }
  void set(int64_t column, int32_t id, double logprob) const {
    ids_[column] = id;
    logprobs_[column] = logprob;
  }
  int32_t id(int64_t column) const { return ids_[column]; }
  double logprob(int64_t column) const { return logprobs_[column]; }

 private:
  int32_t* ids_;
  double* logprobs_;
};

}  // namespace

// The memory of one worker.
struct Sampler::Worker {
  Worker(const RowPasses& passes, int64_t vocab_size)
      : draw(passes, vocab_size),
        filters(passes, vocab_size),
        dry(vocab_size),
        raw(passes, vocab_size),
        adjusted(static_cast<size_t>(vocab_size)),
        occurrences(static_cast<size_t>(vocab_size)),
        block_sums(static_cast<size_t>(num_logit_blocks(vocab_size))) {}

  void reserve_history(int64_t num_tokens) { dry.reserve(num_tokens); }
  void sample(const SampleInput& input, const FilterInput& wanted, const SampleOutput& output,
              int64_t index);

  std::atomic<int64_t>* num_undefined = nullptr;

 private:
  int32_t choose(const SampleInput& input, const SampleOutput& output, const SampleRow& row);
  int32_t choose_filtered(const float* logits, const DrawParameters& parameters,
                          const SampleOutput& output, double xtc_uniform);
  const float* adjust(const SampleInput& input, const SampleRow& row, const float* logits);
  // Mask, biases and penalties, on `adjusted`.
  void adjust_copy(const SampleInput& input, const SampleRow& row);
  void apply_mask(const uint32_t* words);
  void repeat_penalty(const SampleInput& input, const SampleRow& row);
  void output_penalties(const SampleInput& input, const SampleRow& row);
  void report(const SampleOutput& output, int64_t index, const SampleRow& row, int32_t token);
  void report_candidates(const SampleInput& input, const SampleOutput& output, int64_t index);
  // Makes these logits `raw`, and the ones that logprob() is about.
  void normalise(const float* logits);
  double logprob(float logit) const;

  TokenDraw draw;
  TokenFilters filters;
  DryPenalty dry;
  LogitRow raw;
  FilterInput all_wanted;             // of the call
  const FilterRow* wanted = nullptr;  // of the row
  double top = 0;                     // the largest logit
  double log_sum = 0;                 // log of the sum of exp(logit - top)
  ZeroedArray<float> adjusted;
  ZeroedArray<int32_t> occurrences;  // zero between rows
  std::vector<Mass> block_sums;
};

void Sampler::Worker::sample(const SampleInput& input, const FilterInput& all,
                             const SampleOutput& output, int64_t index) {
  const SampleRow& row = input.rows[index];
  all_wanted = all;
  wanted = filter_of(all, index);
  output.ranks[index] = 0;
  output.logprobs[index] = 0;
  if (row.target == kCandidates) return report_candidates(input, output, index);
  const int32_t token = row.target >= 0 ? row.target : choose(input, output, row);
  output.token_ids[index] = token;
  if (row.num_top < 0) return;
  normalise(input.logits + row.logit_row * input.row_stride);
  report(output, index, row, token);
}

int32_t Sampler::Worker::choose(const SampleInput& input, const SampleOutput& output,
                                const SampleRow& row) {
  const float* logits = adjust(input, row, input.logits + row.logit_row * input.row_stride);
  const DrawParameters parameters{row.temperature, row.top_k, row.top_p, row.min_p,
                                  uniform_draw(row.seed, row.position)};
  if (is_filtered(wanted)) {
    return choose_filtered(logits, parameters, output, uniform_draw(row.seed, row.position, 1));
  }
  const int32_t token = draw.choose(logits, parameters);
  if (draw.max() == -INFINITY) num_undefined->fetch_add(1, std::memory_order_relaxed);
  return token;
}

int32_t Sampler::Worker::choose_filtered(const float* logits, const DrawParameters& parameters,
                                         const SampleOutput& output, double xtc_uniform) {
  const FilteredToken token = filters.choose(logits, parameters, *wanted, xtc_uniform);
  if (filters.max() == -INFINITY) num_undefined->fetch_add(1, std::memory_order_relaxed);
  output.surprises[wanted - all_wanted.rows] = token.surprise;
  return token.id;
}

const float* Sampler::Worker::adjust(const SampleInput& input, const SampleRow& row,
                                     const float* logits) {
  if (!is_adjusted(row, wanted)) return logits;
  std::copy_n(logits, adjusted.size(), adjusted.data());
  adjust_copy(input, row);
  return adjusted.data();
}

void Sampler::Worker::adjust_copy(const SampleInput& input, const SampleRow& row) {
  if (row.mask >= 0) {
    apply_mask(input.masks + row.mask * mask_words(static_cast<int64_t>(adjusted.size())));
  }
  for (int32_t i = row.edits_begin; i < row.edits_end; ++i) {
    adjusted[static_cast<size_t>(input.edit_ids[i])] += input.edit_values[i];
  }
  if (is_penalised(row)) {
    repeat_penalty(input, row);
    output_penalties(input, row);
  }
  if (!has_dry(wanted)) return;
  dry.apply(*wanted, input.history + wanted->dry_begin, row.history_end - wanted->dry_begin,
            all_wanted.ids + wanted->breakers_begin, wanted->breakers_end - wanted->breakers_begin,
            adjusted.data());
}

void Sampler::Worker::apply_mask(const uint32_t* words) {
  for (size_t begin = 0; begin < adjusted.size(); begin += 32) {
    const uint32_t word = words[begin / 32];
    if (word == ~uint32_t{0}) continue;
    const size_t count = std::min<size_t>(32, adjusted.size() - begin);
    for (size_t i = 0; i < count; ++i) {
      if ((word >> i & 1) == 0) adjusted[begin + i] = -INFINITY;
    }
  }
}

// Keskar et al., "CTRL", 2019, in the form that Hugging Face gave it: once per token of the
// history, towards less probable whatever the sign.
void Sampler::Worker::repeat_penalty(const SampleInput& input, const SampleRow& row) {
  if (row.repetition_penalty == 1) return;
  for (int32_t i = row.history_begin; i < row.history_end; ++i) {
    const auto id = static_cast<size_t>(input.history[i]);
    if (occurrences[id]++ > 0) continue;
    float& logit = adjusted[id];
    logit = logit > 0 ? logit / row.repetition_penalty : logit * row.repetition_penalty;
  }
  for (int32_t i = row.history_begin; i < row.history_end; ++i) {
    occurrences[static_cast<size_t>(input.history[i])] = 0;
  }
}

// As OpenAI defines them, over the answer only.
void Sampler::Worker::output_penalties(const SampleInput& input, const SampleRow& row) {
  if (row.presence_penalty == 0 && row.frequency_penalty == 0) return;
  for (int32_t i = row.output_begin; i < row.history_end; ++i) {
    ++occurrences[static_cast<size_t>(input.history[i])];
  }
  for (int32_t i = row.output_begin; i < row.history_end; ++i) {
    const auto id = static_cast<size_t>(input.history[i]);
    if (occurrences[id] == 0) continue;
    adjusted[id] -= row.frequency_penalty * static_cast<float>(occurrences[id]);
    adjusted[id] -= row.presence_penalty;
    occurrences[id] = 0;
  }
}

void Sampler::Worker::normalise(const float* logits) {
  raw.set(logits, 1.0f);
  top = raw.max();
  log_sum = 0;
  if (!std::isfinite(top)) return;
  const auto mass = static_cast<double>(raw.sum_blocks(kLogMinWeight, block_sums));
  log_sum = std::log(std::ldexp(mass, -kMassBits));
}

double Sampler::Worker::logprob(float logit) const {
  if (std::isfinite(top) && logit == logit) return static_cast<double>(logit) - top - log_sum;
  return logit == INFINITY ? 0.0 : -static_cast<double>(INFINITY);
}

void Sampler::Worker::report(const SampleOutput& output, int64_t index, const SampleRow& row,
                             int32_t token) {
  output.logprobs[index] = logprob(raw.logits()[token]);
  output.ranks[index] =
      static_cast<int32_t>(raw.passes().count_before(raw.logits(), raw.size(), token)) + 1;
  const TopColumns columns(output, index);
  if (row.num_top == 0) return;
  int64_t column = 0;
  for (const TokenValue& best : raw.largest(row.num_top)) {
    columns.set(column++, best.id, logprob(best.logit));
  }
}

// The order of Hugging Face's beam search: log softmax first, then bans and penalties.
void Sampler::Worker::report_candidates(const SampleInput& input, const SampleOutput& output,
                                        int64_t index) {
  const SampleRow& row = input.rows[index];
  const float* logits = input.logits + row.logit_row * input.row_stride;
  normalise(logits);
  const bool is_changed = is_adjusted(row, wanted);
  if (is_changed) {
    std::transform(logits, logits + raw.size(), adjusted.data(),
                   [&](float logit) { return static_cast<float>(logprob(logit)); });
    adjust_copy(input, row);
    raw.set(adjusted.data(), 1.0f);
  }
  const TopColumns columns(output, index);
  int64_t column = 0;
  for (const TokenValue& best : raw.largest(row.num_top)) {
    const double score = is_changed ? static_cast<double>(best.logit) : logprob(best.logit);
    if (score != -INFINITY) columns.set(column++, best.id, score);
  }
  if (column == 0) {
    columns.set(0, 0, -INFINITY);
    num_undefined->fetch_add(1, std::memory_order_relaxed);
  }
  output.token_ids[index] = columns.id(0);
  output.logprobs[index] = columns.logprob(0);
}

Sampler::Sampler(ThreadPool& pool, const RowPasses& passes, int64_t vocab_size)
    : vocab_size_(vocab_size), pool_(pool) {
  if (vocab_size < 1 || vocab_size > kMaxVocabulary) {
    refuse("vocab_size is " + std::to_string(vocab_size) + "; 1 to " +
           std::to_string(kMaxVocabulary) + " are allowed");
  }
  for (int i = 0; i < pool.num_threads(); ++i) {
    workers_.push_back(std::make_unique<Worker>(passes, vocab_size));
  }
}

Sampler::~Sampler() = default;

void Sampler::check(const SampleInput& input) const {
  check_ids("history", input.history, input.history_size, vocab_size_);
  check_ids("edit_ids", input.edit_ids, input.num_edits, vocab_size_);
  for (int64_t i = 0; i < input.num_rows; ++i) {
    const SampleRow& row = input.rows[i];
    check_range("logit row", row.logit_row, int64_t{row.logit_row} + 1, input.num_logit_rows);
    check_range("prompt", row.history_begin, row.output_begin, input.history_size);
    check_range("answer", row.output_begin, row.history_end, input.history_size);
    check_range("edits", row.edits_begin, row.edits_end, input.num_edits);
    if (row.mask != -1) check_range("mask", row.mask, int64_t{row.mask} + 1, input.num_masks);
    if (row.target >= vocab_size_ || row.target < kCandidates) {
      check_ids("target", &row.target, 1, vocab_size_);
    }
    if (row.target == kCandidates && row.num_top < 1) refuse("candidates need num_top");
    // Written so that NaN is refused.
    if (!(row.temperature >= 0 && row.top_p > 0 && row.min_p >= 0 && row.repetition_penalty > 0)) {
      refuse("temperature and min_p are at least 0, top_p and repetition_penalty above 0");
    }
  }
}

void Sampler::check_filters(const SampleInput& input, const FilterInput& filters) const {
  for (int64_t i = 0; i < filters.num_rows; ++i) {
    const FilterRow& filter = filters.rows[i];
    const int64_t first = i == 0 ? 0 : int64_t{filters.rows[i - 1].row} + 1;
    check_range("filter row", first, filter.row, input.num_rows - 1);
    const SampleRow& row = input.rows[filter.row];
    check_range("DRY history", row.history_begin, filter.dry_begin, row.history_end);
    check_range("breakers", filter.breakers_begin, filter.breakers_end, filters.num_ids);
    check_breakers(filters.ids + filter.breakers_begin, filter.breakers_end - filter.breakers_begin,
                   vocab_size_);
    // Written so that NaN is refused.
    if (!(filter.typical_p > 0 && filter.dynatemp_exponent > 0 && filter.dry_base >= 1 &&
          filter.dry_allowed_length >= 1)) {
      refuse("typical_p and dynatemp_exponent are above 0, DRY's base and length at least 1");
    }
  }
}

int64_t Sampler::run(const SampleInput& input, const FilterInput& filters,
                     const SampleOutput& output) {
  for (const auto& worker : workers_) {
    for (int64_t i = 0; i < filters.num_rows; ++i) {
      const FilterRow& filter = filters.rows[i];
      worker->reserve_history(input.rows[filter.row].history_end - filter.dry_begin);
    }
  }
  std::atomic<int64_t> next{0}, num_undefined{0};
  const auto job = [&](int index, int64_t) {
    Worker& worker = *workers_[static_cast<size_t>(index)];
    worker.num_undefined = &num_undefined;
    for (int64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < input.num_rows;) {
      worker.sample(input, filters, output, i);
    }
  };
  if (input.num_rows * vocab_size_ < kMinSharedLogits || input.num_rows == 1) {
    pool_.run_alone(job);
  } else {
    pool_.run(job);
  }
  return num_undefined.load();
}

}  // namespace octavo
