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

// Weights below e^-700 of the largest count as zero.
inline constexpr double kLogMinWeight = -700.0;

struct RowPasses {
  // The largest logit of each block; NaN counts as -inf. Returns the largest of all.
  float (*block_maxima)(const float* logits, int64_t count, float* maxima);
  // scaled[i] = logits[i] / divisor, NaN becoming -inf. May be the same array.
  void (*scale)(const float* logits, int64_t count, float divisor, float* scaled);
  // Up to kLogitBlock weights exp(logits[i] - max), 0 where logits[i] - max < log_min (which is at
  // least kLogMinWeight). Relative error below 1e-13. Returns their sum.
  double (*weights)(const float* logits, int64_t count, float max, double log_min, double* weights);
  // How many come before `id` in the order of falling logit, then rising id. NaN counts as -inf.
  int64_t (*count_before)(const float* logits, int64_t count, int64_t id);
};

}  // namespace octavo
