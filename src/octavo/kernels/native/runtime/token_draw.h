// Choosing one token from one row of adjusted logits: the filters and the draw. One per worker;
// owns memory for one vocabulary. Knows nothing of penalties, of log probabilities or of other
// rows.
#pragma once

#include <cstdint>
#include <vector>

#include "octavo/row_passes.h"
#include "runtime/weighted_tokens.h"
#include "runtime/zeroed_array.h"

namespace octavo {

struct DrawParameters {
  float temperature;  // 0 chooses the most probable token
  int64_t top_k;      // below 1: all
  double top_p;
  double min_p;
  double uniform;  // in [0, 1)
};

struct TokenValue {
  float logit;  // after the temperature
  int32_t id;
  Mass weight = 0;  // exp(logit - max), once weighed
};

// A row of logits, multiplied by a scale wherever they are looked at, and the maximum of each of
// its blocks.
class LogitRow {
 public:
  LogitRow(const RowPasses& passes, int64_t vocab_size);

  // `logits` are not copied. `scale` is above 0.
  void set(const float* logits, float scale);
  const float* logits() const { return logits_; }
  int64_t size() const { return size_; }
  float max() const { return max_; }
  float scaled(int64_t id) const { return logits_[id] * scale_; }
  // The lowest id of the largest logit; 0 when all are -inf or NaN.
  int32_t argmax() const;
  // The `count` largest (all above -inf when fewer), in falling order, ties by rising id. Valid
  // until the next call.
  const std::vector<TokenValue>& largest(int64_t count);
  // exp(logit - max) of a block, 0 below log_min; room for kLogitBlock. Returns their sum.
  Mass block_weights(int64_t block, float log_min, float* weights) const;
  // The sum over each block of the same; returns the sum of all. With `weights` [size, rounded up
  // to whole blocks] they are kept.
  Mass sum_blocks(float log_min, std::vector<Mass>& block_sums, float* weights = nullptr) const;
  int64_t block_size(int64_t block) const;
  int64_t num_blocks() const { return static_cast<int64_t>(maxima_.size()); }
  const RowPasses& passes() const { return passes_; }

 private:
  void gather(float bound);

  const RowPasses& passes_;
  const int64_t size_;
  const float* logits_ = nullptr;
  float scale_ = 1;
  float max_ = 0;
  std::vector<float> maxima_;  // scaled
  std::vector<float> bounds_;  // a copy of maxima_ to select from
  std::vector<TokenValue> found_;
};

class TokenDraw {
 public:
  TokenDraw(const RowPasses& passes, int64_t vocab_size);

  // Temperature, then min_p, top_k and top_p, then the first token, by rising id among those kept,
  // at which the cumulative weight exceeds `uniform` of the whole. Token 0 when no logit is usable.
  int32_t choose(const float* logits, const DrawParameters& parameters);
  // The largest logit that the last choose() saw, after the temperature.
  float max() const { return row_.max(); }

 private:
  int32_t draw_top_k(const DrawParameters& parameters, float log_min);
  int32_t draw_top_p(const DrawParameters& parameters, float log_min);
  int32_t draw_from_all(double uniform, float log_min);
  // The first token at which the sum of block_sums_, and within a block that of the weights,
  // exceeds `uniform` of `whole`. `weights_of(block, buffer)` fills a block's weights.
  template <typename WeightsOf>
  int32_t draw_in_blocks(double uniform, Mass whole, const WeightsOf& weights_of) const;
  // Of weights_ that are at least `least`: their sum, and into *num how many they are.
  Mass sum_at_least(float least, int64_t* num);
  // Keeps of weights_ the fewest most probable tokens that weigh `mass` together: those that are
  // at least what is returned. All at `low` and above weigh more, all above `high` less.
  float cut_weights_to_mass(Mass mass, float low, float high);
  // Moves those of weights_ in [low, high) to kept_.
  void take_weights(float low, float high);
  void keep(const std::vector<TokenValue>& tokens, float log_min);

  LogitRow row_;
  ZeroedArray<float> weights_;
  std::vector<Mass> block_sums_;
  std::vector<TokenValue> kept_;
  ZeroedArray<int32_t> taken_ids_;
};

}  // namespace octavo
