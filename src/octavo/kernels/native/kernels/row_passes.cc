// One level's passes over a row of logits. Plain loops over fixed lanes, which the compiler turns
// into vectors; knows nothing of sampling.
#include "octavo/row_passes.h"

#include <cmath>
#include <cstring>

#include "kernels/kernels.h"
#include "simd/vec.h"

namespace octavo::OCTAVO_LEVEL {

namespace {

// `max` returns its second operand when the first is NaN, so NaN never enters.
float block_maximum(const float* logits, int64_t count) {
  F32x16 lanes = splat(-INFINITY);
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) lanes = max(load(logits + i), lanes);
  float best = reduce_max(lanes);
  for (; i < count; ++i) best = logits[i] > best ? logits[i] : best;
  return best;
}

float block_maxima(const float* logits, int64_t count, float* maxima) {
  float best = -INFINITY;
  for (int64_t i = 0; i < count; i += kLogitBlock) {
    const int64_t rest = count - i;
    const float block = block_maximum(logits + i, rest < kLogitBlock ? rest : kLogitBlock);
    maxima[i / kLogitBlock] = block;
    best = block > best ? block : best;
  }
  return best;
}

// e^x for kLogMinWeight <= x <= 0, in the steps of simd/vec.h's exp, but with no step fused: this
// returns the same bits on every level.
OCTAVO_INLINE F32x16 exponential(F32x16 x) {
  const F32x16 n = round_even(x * splat(1.44269504088896341f));
  const F32x16 r = (x - n * splat(0.693359375f)) + n * splat(2.12194440e-4f);
  F32x16 p = splat(1.9875691500e-4f);
  p = p * r + splat(1.3981999507e-3f);
  p = p * r + splat(8.3334519073e-3f);
  p = p * r + splat(4.1665795894e-2f);
  p = p * r + splat(1.6666665459e-1f);
  p = p * r + splat(5.0000001201e-1f);
  p = p * (r * r) + (r + splat(1.0f));
  return p * bits_to_f32(shift_left<23>(to_i32(n) + splat_i32(127)));
}

// Adding a number and taking it away rounds to multiples of its last bit.
OCTAVO_INLINE F32x16 rounded(F32x16 x, float coarse) { return x + splat(coarse) - splat(coarse); }

// A weight of at most 1 as two multiples, of 2^-20 and of the step; their sum is exact.
struct SplitWeight {
  F32x16 upper, lower;
};
OCTAVO_INLINE SplitWeight split(F32x16 weight) {
  const F32x16 upper = rounded(weight, 0x1.8p3f);
  return {upper, rounded(weight - upper, 0x1.8p-17f)};
}

// The sum of the weights of a block. Each lane has sums of both parts, of at most 16 weights, which
// floats hold exactly.
struct BlockMass {
  static_assert(kMassBits == 40 && kLogitBlock / kLanes <= 16);
  F32x16 upper = zero_f32(), lower = zero_f32();

  OCTAVO_INLINE void add(SplitWeight weight) {
    upper = upper + weight.upper;
    lower = lower + weight.lower;
  }
  OCTAVO_INLINE Mass sum() const {
    const Mass steps_of_upper = reduce_sum(to_i32(upper * splat(0x1p20f)));
    return (steps_of_upper << 20) + reduce_sum(to_i32(lower * splat(0x1p40f)));
  }
};

Mass weights(const float* logits, int64_t count, float scale, float max_logit, float log_min,
             float* out) {
  const F32x16 factor = splat(scale), top = splat(max_logit), low = splat(log_min);
  const F32x16 below = splat(std::nextafter(log_min, -INFINITY));
  BlockMass mass;
  for (int64_t i = 0; i < count; i += kLanes) {
    const int64_t rest = count - i;
    float tail[kLanes];
    if (rest < kLanes) {
      for (int j = 0; j < kLanes; ++j) tail[j] = j < rest ? logits[i + j] : -INFINITY;
    }
    const F32x16 x = load(rest < kLanes ? tail : logits + i) * factor - top;
    // NaN gives the second operand of max, and is not above anything.
    const SplitWeight w = split(select_less(below, x, exponential(max(x, low)), zero_f32()));
    store(out + i, w.upper + w.lower);
    mass.add(w);
  }
  return mass.sum();
}

Mass sum_at_least(const float* weights, int64_t count, float least, int64_t* num_added) {
  const F32x16 bound = splat(least), one = splat(1.0f), zero = zero_f32();
  BlockMass mass;
  F32x16 num = zero;
  for (int64_t i = 0; i < count; i += kLanes) {
    const F32x16 w = load(weights + i);
    mass.add(split(select_less(w, bound, zero, w)));
    num = num + select_less(w, bound, zero, one);
  }
  *num_added += static_cast<int64_t>(reduce_sum(num));
  return mass.sum();
}

int64_t count_before(const float* logits, int64_t count, int64_t id) {
  const float value = logits[id] == logits[id] ? logits[id] : -INFINITY;
  int64_t before = 0;
  for (int64_t i = 0; i < id; ++i) before += !(logits[i] < value) && (logits[i] == logits[i]);
  for (int64_t i = id + 1; i < count; ++i) before += logits[i] > value;
  // NaN before `id` ties with it when it is -inf itself.
  if (value == -INFINITY) {
    for (int64_t i = 0; i < id; ++i) before += logits[i] != logits[i];
  }
  return before;
}

}  // namespace

const RowPasses& row_passes() {
  static constexpr RowPasses kPasses{block_maxima, weights, sum_at_least, count_before};
  return kPasses;
}

}  // namespace octavo::OCTAVO_LEVEL
