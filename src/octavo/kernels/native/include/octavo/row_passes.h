// Passes over one row of logits, compiled once per instruction-set level, for the sampler. They use
// no fused arithmetic, and weights are summed exactly, so that every level returns the same bits.
#pragma once

#include <cstdint>

namespace octavo {

// A row is looked at in blocks of this many logits.
inline constexpr int64_t kLogitBlock = 256;

constexpr int64_t num_logit_blocks(int64_t count) {
  return (count + kLogitBlock - 1) / kLogitBlock;
}

// A sum of weights, as a whole number of the steps that weights are rounded to. So it is exact, and
// the same in whichever order it is formed; of kMaxVocabulary weights of at most 1 there is room.
using Mass = int64_t;
inline constexpr int kMassBits = 40;
inline constexpr float kWeightStep = 0x1p-40f;
inline constexpr int64_t kMaxVocabulary = int64_t{1} << 22;

// Weights below e^-29 of the largest are below half a step.
inline constexpr float kLogMinWeight = -29.0f;

constexpr Mass mass_of(float weight) { return static_cast<Mass>(weight * 0x1p40f); }

struct RowPasses {
  // The largest logit of each block; NaN counts as -inf. Returns the largest of all.
  float (*block_maxima)(const float* logits, int64_t count, float* maxima);
  // Up to kLogitBlock weights exp(logits[i] * scale - max), and zeros up to the next multiple of
  // 16; 0 where the exponent is below log_min (which is at least kLogMinWeight) or NaN. Relative
  // error below 3e-7, then rounded to whole steps. Returns their sum.
  Mass (*weights)(const float* logits, int64_t count, float scale, float max, float log_min,
                  float* weights);
  // The sum of those of up to kLogitBlock weights that are at least `least`, which is above 0;
  // adds their number to *num_added. Reads up to the next multiple of 16.
  Mass (*sum_at_least)(const float* weights, int64_t count, float least, int64_t* num_added);
  // How many come before `id` in the order of falling logit, then rising id. NaN counts as -inf.
  int64_t (*count_before)(const float* logits, int64_t count, int64_t id);
};

}  // namespace octavo
