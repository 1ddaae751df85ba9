// Choosing one token from one row of adjusted logits: the filters and the draw. One per worker;
// owns memory for one vocabulary. Knows nothing of penalties, of log probabilities or of other
// rows.
#pragma once

#include <cstdint>
#include <vector>

#include "octavo/row_passes.h"

namespace octavo {

struct DrawParameters {
  float temperature;  // 0 chooses the most probable token
  int64_t top_k;      // below 1: all
  double top_p;
  double min_p;
  double uniform;  // in [0, 1)
};

struct TokenValue {
  float logit;
  int32_t id;
  double weight = 0;  // exp(logit - max), once weighed
};

// A row of logits and the maximum of each of its blocks.
class LogitRow {
 public:
  LogitRow(const RowPasses& passes, int64_t vocab_size);

  // `logits` are not copied.
  void set(const float* logits);
  const float* logits() const { return logits_; }
  int64_t size() const { return size_; }
  float max() const { return max_; }
  // The lowest id of the largest logit; 0 when all are -inf or NaN.
  int32_t argmax() const;
  // The `count` largest (all above -inf when fewer), in falling order, ties by rising id. Valid
  // until the next call.
  const std::vector<TokenValue>& largest(int64_t count);
  // All with logit - max >= log_min, by rising id. Valid until the next call.
  const std::vector<TokenValue>& above(double log_min);
  // Sum over each block of exp(logit - max), without those below log_min; returns the sum of all.
  double sum_blocks(double log_min, std::vector<double>& block_sums) const;
  const RowPasses& passes() const { return passes_; }

 private:
  void gather(float bound);

  const RowPasses& passes_;
  const int64_t size_;
  const float* logits_ = nullptr;
  float max_ = 0;
  std::vector<float> maxima_;
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
  int32_t draw_from_all(double uniform, double log_min);
  int32_t draw_in_block(int64_t block, double cumulative, double target, double log_min);
  int32_t draw_from_kept(double uniform);
  void keep_top_k(const DrawParameters& parameters, double log_min);
  void keep_top_p(double top_p, double log_min);
  void keep(const std::vector<TokenValue>& tokens, double log_min);
  // Weighs kept_ and returns the sum.
  double weigh_kept();
  // Cuts kept_ to the fewest most probable tokens that weigh at least `mass` together. False when
  // all do not.
  bool cut_to_mass(double mass);

  LogitRow row_;
  std::vector<float> scaled_;
  std::vector<double> block_sums_;
  std::vector<TokenValue> kept_;
};

}  // namespace octavo
