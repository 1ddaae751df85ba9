// Selecting the largest logits, the filters, and the draw by cumulative weight.
#include "runtime/token_draw.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace octavo {

namespace {

bool comes_before(const TokenValue& a, const TokenValue& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

}  // namespace

LogitRow::LogitRow(const RowPasses& passes, int64_t vocab_size)
    : passes_(passes), size_(vocab_size) {
  maxima_.resize(static_cast<size_t>(num_logit_blocks(vocab_size)));
  bounds_.reserve(maxima_.size());
  found_.reserve(static_cast<size_t>(vocab_size));
}

void LogitRow::set(const float* logits) {
  logits_ = logits;
  max_ = passes_.block_maxima(logits, size_, maxima_.data());
}

int32_t LogitRow::argmax() const {
  if (max_ == -INFINITY) return 0;
  const auto block = std::find(maxima_.begin(), maxima_.end(), max_) - maxima_.begin();
  const float* from = logits_ + block * kLogitBlock;
  return static_cast<int32_t>(std::find(from, logits_ + size_, max_) - logits_);
}

// Each of `count` blocks has a logit of at least the count-th largest maximum, so no logit below
// that is among the `count` largest, and only blocks that reach it need be looked at.
const std::vector<TokenValue>& LogitRow::largest(int64_t count) {
  float bound = -INFINITY;
  if (count <= static_cast<int64_t>(maxima_.size())) {
    bounds_.assign(maxima_.begin(), maxima_.end());
    const auto last = bounds_.begin() + count - 1;
    std::nth_element(bounds_.begin(), last, bounds_.end(), std::greater<float>());
    bound = *last;
  }
  gather(bound);
  if (static_cast<int64_t>(found_.size()) > count) {
    std::nth_element(found_.begin(), found_.begin() + count, found_.end(), comes_before);
    found_.resize(static_cast<size_t>(count));
  }
  std::sort(found_.begin(), found_.end(), comes_before);
  return found_;
}

const std::vector<TokenValue>& LogitRow::above(double log_min) {
  const double top = max_;
  gather(std::nextafter(static_cast<float>(top + log_min), -INFINITY));
  std::erase_if(found_, [&](const TokenValue& token) {
    return static_cast<double>(token.logit) - top < log_min;
  });
  return found_;
}

void LogitRow::gather(float bound) {
  found_.clear();
  for (size_t block = 0; block < maxima_.size(); ++block) {
    if (maxima_[block] < bound || maxima_[block] == -INFINITY) continue;
    const auto first = static_cast<int64_t>(block) * kLogitBlock;
    const int64_t last = std::min(first + kLogitBlock, size_);
    for (int64_t i = first; i < last; ++i) {
      if (logits_[i] >= bound && logits_[i] > -INFINITY) {
        found_.push_back({logits_[i], static_cast<int32_t>(i)});
      }
    }
  }
}

double LogitRow::sum_blocks(double log_min, std::vector<double>& block_sums) const {
  double block_weights[kLogitBlock];
  double total = 0;
  for (size_t block = 0; block < maxima_.size(); ++block) {
    const auto first = static_cast<int64_t>(block) * kLogitBlock;
    const int64_t count = std::min(kLogitBlock, size_ - first);
    const double sum = static_cast<double>(maxima_[block]) - static_cast<double>(max_) < log_min
                           ? 0.0
                           : passes_.weights(logits_ + first, count, max_, log_min, block_weights);
    block_sums[block] = sum;
    total += sum;
  }
  return total;
}

TokenDraw::TokenDraw(const RowPasses& passes, int64_t vocab_size) : row_(passes, vocab_size) {
  const auto size = static_cast<size_t>(vocab_size);
  scaled_.resize(size);
  block_sums_.resize(static_cast<size_t>(num_logit_blocks(vocab_size)));
  kept_.reserve(size);
}

int32_t TokenDraw::choose(const float* logits, const DrawParameters& parameters) {
  const bool greedy = parameters.temperature == 0;
  if (!greedy) {
    row_.passes().scale(logits, row_.size(), parameters.temperature, scaled_.data());
  }
  row_.set(greedy ? logits : scaled_.data());
  if (greedy || !std::isfinite(row_.max())) return row_.argmax();
  const double log_min = std::max(std::log(parameters.min_p), kLogMinWeight);
  if (parameters.top_k >= 1 && parameters.top_k < row_.size()) {
    keep_top_k(parameters, log_min);
  } else if (parameters.top_p < 1) {
    keep_top_p(parameters.top_p, log_min);
  } else {
    return draw_from_all(parameters.uniform, log_min);
  }
  return draw_from_kept(parameters.uniform);
}

void TokenDraw::keep(const std::vector<TokenValue>& tokens, double log_min) {
  const double top = row_.max();
  kept_.clear();
  for (const TokenValue& token : tokens) {
    if (static_cast<double>(token.logit) - top >= log_min) kept_.push_back(token);
  }
}

void TokenDraw::keep_top_k(const DrawParameters& parameters, double log_min) {
  keep(row_.largest(parameters.top_k), log_min);
  if (parameters.top_p < 1) cut_to_mass(parameters.top_p * weigh_kept());
}

void TokenDraw::keep_top_p(double top_p, double log_min) {
  constexpr int64_t kUsuallyEnough = 64;
  const double total = row_.sum_blocks(log_min, block_sums_);
  keep(row_.largest(std::min(kUsuallyEnough, row_.size())), log_min);
  weigh_kept();
  if (cut_to_mass(top_p * total)) return;
  // If all tokens below some weight w were cut, that would cost less than size * w. With w chosen
  // so that this is the share that top_p leaves, whatever is kept weighs at least w.
  const double least = (1 - top_p) * total / static_cast<double>(row_.size());
  constexpr double kRoundingSlack = 1e-6;
  keep(row_.above(std::max(std::log(least) - kRoundingSlack, log_min)), log_min);
  weigh_kept();
  cut_to_mass(top_p * total);
}

// Halves the part in question instead of sorting it: whole vocabularies come here.
bool TokenDraw::cut_to_mass(double mass) {
  constexpr int64_t kSortedLength = 64;
  auto first = kept_.begin(), last = kept_.end();
  double cumulative = 0;
  while (last - first > kSortedLength) {
    const auto middle = first + (last - first) / 2;
    std::nth_element(first, middle, last, comes_before);
    double upper = 0;
    for (auto token = first; token != middle; ++token) upper += token->weight;
    if (cumulative + upper >= mass) {
      last = middle;
    } else {
      cumulative += upper;
      first = middle;
    }
  }
  std::sort(first, last, comes_before);
  for (; first != last; ++first) {
    cumulative += first->weight;
    if (cumulative < mass) continue;
    kept_.erase(first + 1, kept_.end());
    return true;
  }
  return false;
}

double TokenDraw::weigh_kept() {
  float logits[kLogitBlock];
  double weights[kLogitBlock];
  double total = 0;
  for (size_t first = 0; first < kept_.size(); first += kLogitBlock) {
    const size_t count = std::min(static_cast<size_t>(kLogitBlock), kept_.size() - first);
    for (size_t i = 0; i < count; ++i) logits[i] = kept_[first + i].logit;
    row_.passes().weights(logits, static_cast<int64_t>(count), row_.max(), kLogMinWeight, weights);
    for (size_t i = 0; i < count; ++i) total += kept_[first + i].weight = weights[i];
  }
  return total;
}

int32_t TokenDraw::draw_from_kept(double uniform) {
  std::sort(kept_.begin(), kept_.end(),
            [](const TokenValue& a, const TokenValue& b) { return a.id < b.id; });
  const double target = uniform * weigh_kept();
  double cumulative = 0;
  for (const TokenValue& token : kept_) {
    cumulative += token.weight;
    if (cumulative > target) return token.id;
  }
  return kept_.back().id;
}

int32_t TokenDraw::draw_from_all(double uniform, double log_min) {
  const double target = uniform * row_.sum_blocks(log_min, block_sums_);
  double before = 0;  // of the chosen block
  double cumulative = 0;
  size_t chosen = 0;
  for (size_t block = 0; block < block_sums_.size() && cumulative <= target; ++block) {
    if (block_sums_[block] == 0) continue;
    chosen = block;
    before = cumulative;
    cumulative += block_sums_[block];
  }
  return draw_in_block(static_cast<int64_t>(chosen), before, target, log_min);
}

// The last token that has a weight, should rounding leave the sum short of `target`.
int32_t TokenDraw::draw_in_block(int64_t block, double cumulative, double target, double log_min) {
  const int64_t first = block * kLogitBlock;
  const int64_t count = std::min(kLogitBlock, row_.size() - first);
  double weights[kLogitBlock];
  row_.passes().weights(row_.logits() + first, count, row_.max(), log_min, weights);
  int64_t last = 0;
  for (int64_t i = 0; i < count && cumulative <= target; ++i) {
    if (weights[i] == 0) continue;
    last = i;
    cumulative += weights[i];
  }
  return static_cast<int32_t>(first + last);
}

}  // namespace octavo
