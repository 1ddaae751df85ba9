// Selecting the largest logits, the filters, and the draw by cumulative weight.
#include "runtime/token_draw.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>

namespace octavo {

namespace {

constexpr float kLargest = std::numeric_limits<float>::max();

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

// Products round monotonically, so the maxima may be scaled instead of all the logits.
void LogitRow::set(const float* logits, float scale) {
  logits_ = logits;
  scale_ = scale;
  max_ = passes_.block_maxima(logits, size_, maxima_.data()) * scale;
  for (float& maximum : maxima_) maximum *= scale;
}

int64_t LogitRow::block_size(int64_t block) const {
  return std::min(kLogitBlock, size_ - block * kLogitBlock);
}

int32_t LogitRow::argmax() const {
  if (max_ == -INFINITY) return 0;
  const auto block = std::find(maxima_.begin(), maxima_.end(), max_) - maxima_.begin();
  int64_t i = block * kLogitBlock;
  while (scaled(i) != max_) ++i;
  return static_cast<int32_t>(i);
}

// Each of `count` blocks has a logit of at least the count-th largest maximum, so no logit below
// that is among the `count` largest, and only blocks that reach it need be looked at.
const std::vector<TokenValue>& LogitRow::largest(int64_t count) {
  float bound = -INFINITY;
  if (count <= num_blocks()) {
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

void LogitRow::gather(float bound) {
  found_.clear();
  for (int64_t block = 0; block < num_blocks(); ++block) {
    const float maximum = maxima_[static_cast<size_t>(block)];
    if (maximum < bound || maximum == -INFINITY) continue;
    const int64_t first = block * kLogitBlock;
    float scaled[kLogitBlock];  // apart, because this loop becomes vectors
    const int64_t count = block_size(block);
    for (int64_t i = 0; i < count; ++i) scaled[i] = logits_[first + i] * scale_;
    for (int64_t i = 0; i < count; ++i) {
      if (scaled[i] >= bound && scaled[i] > -INFINITY) {
        found_.push_back({scaled[i], static_cast<int32_t>(first + i)});
      }
    }
  }
}

Mass LogitRow::block_weights(int64_t block, float log_min, float* weights) const {
  return passes_.weights(logits_ + block * kLogitBlock, block_size(block), scale_, max_, log_min,
                         weights);
}

Mass LogitRow::sum_blocks(float log_min, std::vector<Mass>& block_sums, float* weights) const {
  float unkept[kLogitBlock];
  Mass total = 0;
  for (int64_t block = 0; block < num_blocks(); ++block) {
    const auto index = static_cast<size_t>(block);
    float* to = weights == nullptr ? unkept : weights + block * kLogitBlock;
    Mass sum = 0;
    if (maxima_[index] - max_ >= log_min) {
      sum = block_weights(block, log_min, to);
    } else if (weights != nullptr) {
      std::fill_n(to, kLogitBlock, 0.0f);
    }
    block_sums[index] = sum;
    total += sum;
  }
  return total;
}

TokenDraw::TokenDraw(const RowPasses& passes, int64_t vocab_size)
    : row_(passes, vocab_size),
      weights_(static_cast<size_t>(num_logit_blocks(vocab_size) * kLogitBlock)),
      block_sums_(static_cast<size_t>(num_logit_blocks(vocab_size))),
      taken_ids_(static_cast<size_t>(vocab_size)) {
  kept_.reserve(static_cast<size_t>(vocab_size));
}

int32_t TokenDraw::choose(const float* logits, const DrawParameters& parameters) {
  const bool greedy = parameters.temperature == 0;
  row_.set(logits, greedy ? 1.0f : std::min(1.0f / parameters.temperature, kLargest));
  if (greedy || !std::isfinite(row_.max())) return row_.argmax();
  const float log_min = std::max(static_cast<float>(std::log(parameters.min_p)), kLogMinWeight);
  if (parameters.top_k >= 1 && parameters.top_k < row_.size()) {
    return draw_top_k(parameters, log_min);
  }
  if (parameters.top_p < 1) return draw_top_p(parameters, log_min);
  return draw_from_all(parameters.uniform, log_min);
}

void TokenDraw::keep(const std::vector<TokenValue>& tokens, float log_min) {
  kept_.clear();
  for (const TokenValue& token : tokens) {
    if (token.logit - row_.max() >= log_min) kept_.push_back(token);
  }
}

int32_t TokenDraw::draw_top_k(const DrawParameters& parameters, float log_min) {
  keep(row_.largest(parameters.top_k), log_min);
  const Mass whole = weigh(row_.passes(), row_.max(), kept_);
  if (parameters.top_p < 1) cut_to_mass(kept_, share_of(whole, parameters.top_p), comes_before);
  return draw(kept_, parameters.uniform).id;
}

int32_t TokenDraw::draw_top_p(const DrawParameters& parameters, float log_min) {
  constexpr int64_t kUsuallyEnough = 64;
  const Mass whole = row_.sum_blocks(log_min, block_sums_, weights_.data());
  const Mass mass = share_of(whole, parameters.top_p);
  keep(row_.largest(std::min(kUsuallyEnough, row_.size())), log_min);
  weigh(row_.passes(), row_.max(), kept_);
  if (cut_to_mass(kept_, mass, comes_before)) return draw(kept_, parameters.uniform).id;
  // If all tokens below some weight were cut, that would cost less than size times this weight.
  // With the one for which this is what top_p leaves, whatever is kept weighs at least as much.
  constexpr float kRoundingSlack = 1 - 1e-5f;
  const float low = weight_of((whole - mass) / row_.size()) * kRoundingSlack;
  const float high = weight_of(kept_.back().weight);
  const float least = cut_weights_to_mass(mass, std::max(low, kWeightStep), high);
  int64_t num;
  const Mass total = sum_at_least(least, &num);
  return draw_in_blocks(parameters.uniform, total, [&](int64_t block, float* buffer) {
    const float* from = weights_.data() + block * kLogitBlock;
    for (int64_t i = 0; i < kLogitBlock; ++i) buffer[i] = from[i] < least ? 0.0f : from[i];
  });
}

Mass TokenDraw::sum_at_least(float least, int64_t* num) {
  *num = 0;
  Mass total = 0;
  for (int64_t block = 0; block < row_.num_blocks(); ++block) {
    Mass& sum = block_sums_[static_cast<size_t>(block)];
    sum = row_.passes().sum_at_least(weights_.data() + block * kLogitBlock, row_.block_size(block),
                                     least, num);
    total += sum;
  }
  return total;
}

// Bisection brings the two bounds together, by the floats' bits, which rise as the floats do, until
// few tokens lie between; those are sorted. Whole vocabularies come here: at 262144 tokens a pass
// takes 25 us, sorting 14 ms.
float TokenDraw::cut_weights_to_mass(Mass mass, float least, float most) {
  constexpr int64_t kSortedLength = 4096;
  auto high = std::bit_cast<uint32_t>(most) + 1;
  auto low = std::min(std::bit_cast<uint32_t>(least), high - 1);
  int64_t num_low = row_.size(), num_high;
  Mass mass_high = sum_at_least(std::bit_cast<float>(high), &num_high);
  while (high - low > 1 && num_low - num_high > kSortedLength) {
    const uint32_t middle = low + (high - low) / 2;
    int64_t num;
    const Mass sum = sum_at_least(std::bit_cast<float>(middle), &num);
    if (sum >= mass) {
      low = middle;
      num_low = num;
    } else {
      high = middle;
      num_high = num;
      mass_high = sum;
    }
  }
  take_weights(std::bit_cast<float>(low), std::bit_cast<float>(high));
  cut_to_mass(kept_, mass - mass_high, comes_before);
  for (const TokenValue& token : kept_) {
    weights_[static_cast<size_t>(token.id)] = weight_of(token.weight);
  }
  return std::bit_cast<float>(low);
}

void TokenDraw::take_weights(float low, float high) {
  size_t count = 0;
  for (int64_t i = 0; i < row_.size(); ++i) {  // without branches, which nobody could predict
    const float weight = weights_[static_cast<size_t>(i)];
    taken_ids_[count] = static_cast<int32_t>(i);
    count += static_cast<size_t>((weight >= low) & (weight < high));
  }
  kept_.clear();
  for (size_t i = 0; i < count; ++i) {
    float& weight = weights_[static_cast<size_t>(taken_ids_[i])];
    kept_.push_back({row_.scaled(taken_ids_[i]), taken_ids_[i], mass_of(weight)});
    weight = 0;
  }
}

int32_t TokenDraw::draw_from_all(double uniform, float log_min) {
  const Mass whole = row_.sum_blocks(log_min, block_sums_);
  return draw_in_blocks(uniform, whole, [&](int64_t block, float* buffer) {
    row_.block_weights(block, log_min, buffer);
  });
}

template <typename WeightsOf>
int32_t TokenDraw::draw_in_blocks(double uniform, Mass whole, const WeightsOf& weights_of) const {
  Mass rest = drawn_mass(whole, uniform);
  size_t block = 0;
  while (block_sums_[block] <= rest) rest -= block_sums_[block++];
  float weights[kLogitBlock];
  weights_of(static_cast<int64_t>(block), weights);
  int64_t i = 0;
  while (mass_of(weights[i]) <= rest) rest -= mass_of(weights[i++]);
  return static_cast<int32_t>(static_cast<int64_t>(block) * kLogitBlock + i);
}

}  // namespace octavo
