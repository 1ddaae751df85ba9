// Passes over one row of logits, compiled once per instruction-set level, for the sampler. They use
// no fused arithmetic and one order of summation, so that every level returns the same bits.
#pragma once

#include <cstdint>

namespace octavo {

// A row is looked at in blocks of this many logits.
inline constexpr int64_t kLogitBlock = 256;

constexpr int64_t num_logit_blocks(int64_t count) {
  return (count + kLogitBlock - 1) / kLogitBlock;
}

// Weights below e^-80 of the largest count as zero: the sums they would enter do not notice them.
inline constexpr float kLogMinWeight = -80.0f;

struct RowPasses {
  // The largest logit of each block; NaN counts as -inf. Returns the largest of all.
  float (*block_maxima)(const float* logits, int64_t count, float* maxima);
  // Up to kLogitBlock weights exp(logits[i] * scale - max), and zeros up to the next multiple of
  // 16; 0 where the exponent is below log_min (which is at least kLogMinWeight) or NaN. Relative
  // error below 3e-7. Returns their sum.
  float (*weights)(const float* logits, int64_t count, float scale, float max, float log_min,
                   float* weights);
  // The sum of those of up to kLogitBlock weights that are at least `least`, which is above 0;
  // adds their number to *num_added. Reads up to the next multiple of 16.
  float (*sum_at_least)(const float* weights, int64_t count, float least, int64_t* num_added);
  // How many come before `id` in the order of falling logit, then rising id. NaN counts as -inf.
  int64_t (*count_before)(const float* logits, int64_t count, int64_t id);
};

}  // namespace octavo
