// The filters, one after the other, on the list of tokens that are left.
#include "runtime/token_filters.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace octavo {

namespace {

constexpr float kLargest = std::numeric_limits<float>::max();
// Below this a temperature takes the most probable token.
constexpr float kGreedyTemperature = 1e-5f;

}  // namespace

TokenFilters::TokenFilters(const RowPasses& passes, int64_t vocab_size)
    : passes_(passes), vocab_size_(vocab_size) {
  kept_.reserve(static_cast<size_t>(vocab_size));
}

double TokenFilters::probability(const Token& token, Mass total) {
  return static_cast<double>(token.weight) / static_cast<double>(total);
}

bool TokenFilters::comes_before(const Token& a, const Token& b) {
  if (a.key != b.key) return a.key < b.key;
  return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

FilteredToken TokenFilters::choose(const float* logits, const DrawParameters& parameters,
                                   const FilterRow& row, double xtc_uniform) {
  gather(logits);
  if (parameters.temperature == 0 || !std::isfinite(max_)) return take_largest();
  if (row.top_n_sigma > 0) cut_to_sigma(row.top_n_sigma);
  const float temperature = temperature_of(parameters.temperature, row);
  if (temperature < kGreedyTemperature && row.dynatemp_range > 0) return take_largest();
  scale(temperature);
  if (!std::isfinite(scaled_max())) return take_largest();
  weigh_kept(std::max(static_cast<float>(std::log(parameters.min_p)), kLogMinWeight));
  if (parameters.top_k >= 1) {
    order_by_weight();
    cut_to_count(parameters.top_k);
  }
  if (row.typical_p < 1) {
    order_by_typicality();
    cut_to_share(row.typical_p);
  }
  order_by_weight();
  if (parameters.top_p < 1) cut_to_share(parameters.top_p);
  if (xtc_uniform < row.xtc_probability) exclude_top_choices(row.xtc_threshold);
  if (row.mirostat_mu < INFINITY) cut_to_surprise(row.mirostat_mu);
  const Token chosen = draw(kept_, parameters.uniform);
  return {chosen.id, -std::log2(probability(chosen, total_mass(kept_)))};
}

void TokenFilters::gather(const float* logits) {
  kept_.clear();
  max_ = -INFINITY;
  for (int64_t i = 0; i < vocab_size_; ++i) {
    if (!(logits[i] > -INFINITY)) continue;
    kept_.push_back({logits[i], static_cast<int32_t>(i), 0, 0});
    max_ = std::max(max_, logits[i]);
  }
}

FilteredToken TokenFilters::take_largest() const {
  const Token* largest = nullptr;
  for (const Token& token : kept_) {
    if (largest == nullptr || token.logit > largest->logit) largest = &token;
  }
  return {largest == nullptr ? 0 : largest->id, 0};
}

void TokenFilters::cut_to_sigma(double n) {
  const auto count = static_cast<double>(kept_.size());
  double sum = 0, squares = 0;
  for (const Token& token : kept_) sum += static_cast<double>(token.logit);
  const double mean = sum / count;
  for (const Token& token : kept_) {
    const double difference = static_cast<double>(token.logit) - mean;
    squares += difference * difference;
  }
  const double least = static_cast<double>(max_) - n * std::sqrt(squares / count);
  std::erase_if(kept_,
                [&](const Token& token) { return static_cast<double>(token.logit) < least; });
}

float TokenFilters::temperature_of(float temperature, const FilterRow& row) const {
  if (row.dynatemp_range == 0 || kept_.size() < 2) return temperature;
  double total = 0, sum = 0;  // of weights, and of weights times differences
  for (const Token& token : kept_) {
    const auto difference = static_cast<double>(token.logit - max_);
    const double weight = std::exp(difference);
    total += weight;
    if (weight > 0) sum += weight * difference;
  }
  const double entropy = std::log(total) - sum / total;
  const double evenness =
      std::clamp(entropy / std::log(static_cast<double>(kept_.size())), 0.0, 1.0);
  const double low = std::max(0.0, static_cast<double>(temperature) - row.dynatemp_range);
  const double high = static_cast<double>(temperature) + row.dynatemp_range;
  return static_cast<float>(low + (high - low) * std::pow(evenness, row.dynatemp_exponent));
}

void TokenFilters::scale(float temperature) {
  const float factor = std::min(1.0f / temperature, kLargest);
  for (Token& token : kept_) token.logit *= factor;
}

void TokenFilters::weigh_kept(float log_min) {
  const float largest = scaled_max();
  for (Token& token : kept_) token.logit -= largest;
  std::erase_if(kept_, [&](const Token& token) { return !(token.logit >= log_min); });
  weigh(passes_, 0.0f, kept_);
  std::erase_if(kept_, [](const Token& token) { return token.weight == 0; });
}

float TokenFilters::scaled_max() const {
  float largest = -INFINITY;
  for (const Token& token : kept_) largest = std::max(largest, token.logit);
  return largest;
}

void TokenFilters::order_by_weight() {
  for (Token& token : kept_) token.key = -static_cast<double>(token.logit);
}

void TokenFilters::order_by_typicality() {
  order_by_id(kept_);  // rounded sums of doubles depend on the order
  const Mass total = total_mass(kept_);
  const double log_total = std::log(std::ldexp(static_cast<double>(total), -kMassBits));
  double entropy = 0;
  for (const Token& token : kept_) {
    entropy += probability(token, total) * (log_total - static_cast<double>(token.logit));
  }
  for (Token& token : kept_) {
    token.key = std::abs(log_total - static_cast<double>(token.logit) - entropy);
  }
}

void TokenFilters::cut_to_count(int64_t count) {
  if (count >= static_cast<int64_t>(kept_.size())) return;
  std::nth_element(kept_.begin(), kept_.begin() + count, kept_.end(), comes_before);
  kept_.resize(static_cast<size_t>(count));
}

void TokenFilters::cut_to_share(double share) {
  cut_to_mass(kept_, share_of(total_mass(kept_), share), comes_before);
}

void TokenFilters::exclude_top_choices(double threshold) {
  const Mass total = total_mass(kept_);
  const auto is_top = [&](const Token& token) { return probability(token, total) >= threshold; };
  const Token* least = nullptr;
  for (const Token& token : kept_) {
    if (is_top(token) && (least == nullptr || comes_before(*least, token))) least = &token;
  }
  if (least == nullptr) return;
  const int32_t stays = least->id;
  std::erase_if(kept_, [&](const Token& token) { return token.id != stays && is_top(token); });
}

void TokenFilters::cut_to_surprise(double mu) {
  const Mass total = total_mass(kept_);
  const Token best = *std::min_element(kept_.begin(), kept_.end(), comes_before);
  std::erase_if(kept_, [&](const Token& token) {
    return token.id != best.id && -std::log2(probability(token, total)) > mu;
  });
}

}  // namespace octavo
