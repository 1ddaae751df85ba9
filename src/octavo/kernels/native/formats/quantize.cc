// The quantisers. Loops go over sixteen lanes, so that compilers vectorise them, and sums have the
// same order for every vector width.
#include "formats/quantize.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "formats/gguf_blocks.h"
#include "formats/half.h"

// The same code for wider vectors, chosen when the program is loaded.
#if defined(OCTAVO_X86)
#define OCTAVO_WIDE __attribute__((target_clones("default", "avx2", "avx512f")))
#else
#define OCTAVO_WIDE
#endif
#define OCTAVO_INLINE inline __attribute__((always_inline))

namespace octavo {
namespace {

using namespace gguf;

constexpr int kLanes = 16;

struct Lanes {
  float v[kLanes];
};

OCTAVO_INLINE float sum(Lanes x) {
  for (int half = kLanes / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) x.v[i] += x.v[i + half];
  }
  return x.v[0];
}
OCTAVO_INLINE float largest(Lanes x) {
  for (int half = kLanes / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) x.v[i] = x.v[i] > x.v[i + half] ? x.v[i] : x.v[i + half];
  }
  return x.v[0];
}

// Sum over a group of function(i), by lanes.
template <class Function>
OCTAVO_INLINE float group_sum(Function function) {
  Lanes lanes;
  for (int i = 0; i < kLanes; ++i) lanes.v[i] = function(i);
  for (int i = 0; i < kLanes; ++i) lanes.v[i] += function(i + kLanes);
  return sum(lanes);
}
template <class Function>
OCTAVO_INLINE float group_largest(Function function) {
  Lanes lanes;
  for (int i = 0; i < kLanes; ++i) {
    const float a = function(i), b = function(i + kLanes);
    lanes.v[i] = a > b ? a : b;
  }
  return largest(lanes);
}

OCTAVO_INLINE float clamp(float x, float low, float high) {
  x = x > low ? x : low;  // NaN becomes low
  return x < high ? x : high;
}
OCTAVO_INLINE bool all_finite(const float* x) {
  return group_sum([x](int i) { return x[i] * 0.0f; }) == 0.0f;
}
OCTAVO_INLINE float inverse(float x) {
  const float result = 1.0f / x;
  return std::isfinite(result) ? result : 0.0f;
}
OCTAVO_INLINE Half to_half(float x) {
  const uint16_t bits = f32_to_f16(x);
  Half h;
  std::memcpy(h.bytes, &bits, 2);
  return h;
}
OCTAVO_INLINE float scale_or_nan(const float* group, float scale) {
  return all_finite(group) ? scale : std::numeric_limits<float>::quiet_NaN();
}

OCTAVO_INLINE void quantize_block(const float* x, Q8_0& b) {
  const float d = group_largest([x](int i) { return std::fabs(x[i]); }) / 127.0f;
  const float id = inverse(d);
  for (int i = 0; i < kGroup; ++i) {  // to nearest, halves away from zero
    const float y = clamp(x[i] * id, -127.0f, 127.0f), magnitude = std::fabs(y);
    const int whole = static_cast<int>(magnitude);
    const int rounded = whole + static_cast<int>(2.0f * (magnitude - static_cast<float>(whole)));
    b.codes[i] = static_cast<uint8_t>(y < 0 ? -rounded : rounded);
  }
  b.d = to_half(scale_or_nan(x, d));
}

template <class Block>
OCTAVO_INLINE void store_nibbles(const int32_t* codes, Block& b) {
  for (int i = 0; i < 16; ++i) b.low[i] = static_cast<uint8_t>(codes[i] | (codes[i + 16] << 4));
}

OCTAVO_INLINE void quantize_block(const float* x, Q4_0& b) {
  float extreme = 0.0f;  // the first of the largest magnitude, with its sign
  for (int i = 0; i < kGroup; ++i) extreme = std::fabs(x[i]) > std::fabs(extreme) ? x[i] : extreme;
  const float d = extreme / -8.0f, id = inverse(d);
  int32_t codes[kGroup];
  for (int i = 0; i < kGroup; ++i) {
    codes[i] = static_cast<int32_t>(clamp(x[i] * id + 8.5f, 0.0f, 15.0f));
  }
  store_nibbles(codes, b);
  b.d = to_half(scale_or_nan(x, d));
}

// ---- Four bits with a minimum: x ~ scale * code + minimum ----

constexpr float kMaxCode = 15.0f;

struct Affine {
  float scale;
  float minimum;
};

OCTAVO_INLINE float nearest_code(float x, Affine a, float inverse_scale) {
  return static_cast<float>(
      static_cast<int32_t>(clamp((x - a.minimum) * inverse_scale, 0.0f, kMaxCode) + 0.5f));
}

// A group and what its errors weigh. Large values matter more, as in ggml's reference quantisers:
// their products are what sums are made of.
struct Group {
  const float* x;
  float weights[kGroup];
  float sum_w, sum_wx;
  float low, high;  // of x
};

OCTAVO_INLINE Group make_group(const float* x) {
  Group g;
  g.x = x;
  const float rms = std::sqrt(group_sum([x](int i) { return x[i] * x[i]; }) / kGroup);
  for (int i = 0; i < kGroup; ++i) g.weights[i] = rms + std::fabs(x[i]);
  const float* w = g.weights;
  g.sum_w = group_sum([w](int i) { return w[i]; });
  g.sum_wx = group_sum([w, x](int i) { return w[i] * x[i]; });
  g.high = group_largest([x](int i) { return x[i]; });
  g.low = -group_largest([x](int i) { return -x[i]; });
  return g;
}

// The scale and minimum of least error for given codes; `fallback` where they are all equal.
OCTAVO_INLINE Affine best_affine(const Group& g, const float* codes, bool minimum_below_zero,
                                 Affine fallback) {
  const float *x = g.x, *w = g.weights;
  const float sum_l = group_sum([=](int i) { return w[i] * codes[i]; });
  const float sum_ll = group_sum([=](int i) { return w[i] * codes[i] * codes[i]; });
  const float sum_xl = group_sum([=](int i) { return w[i] * x[i] * codes[i]; });
  const float determinant = g.sum_w * sum_ll - sum_l * sum_l;
  if (!(determinant > 0.0f)) return fallback;
  const Affine a = {(g.sum_w * sum_xl - g.sum_wx * sum_l) / determinant,
                    (sum_ll * g.sum_wx - sum_l * sum_xl) / determinant};
  return minimum_below_zero && a.minimum > 0.0f ? Affine{sum_xl / sum_ll, 0.0f} : a;
}

// Tries codes for twenty widths of the code's range about that of the values, and for each the best
// scale and minimum.
OCTAVO_INLINE Affine fit_group(const Group& g, bool minimum_below_zero) {
  constexpr int kTrials = 20;
  const Affine whole = {0.0f, minimum_below_zero && g.low > 0.0f ? 0.0f : g.low};
  const float range = g.high - whole.minimum;
  if (!(range > 0.0f)) return {0.0f, whole.minimum};
  Affine best = {range / kMaxCode, whole.minimum};
  float least_error = std::numeric_limits<float>::infinity();
  for (int trial = 0; trial < kTrials; ++trial) {
    const float steps = kMaxCode - 1.0f + 0.1f * static_cast<float>(trial);
    float codes[kGroup];
    for (int i = 0; i < kGroup; ++i) codes[i] = nearest_code(g.x[i], whole, steps / range);
    const Affine a = best_affine(g, codes, minimum_below_zero, best);
    const float error = group_sum([&](int i) {
      const float difference = a.scale * codes[i] + a.minimum - g.x[i];
      return g.weights[i] * difference * difference;
    });
    if (error < least_error) {
      least_error = error;
      best = a;
    }
  }
  return best;
}

OCTAVO_INLINE void nearest_codes(const float* x, Affine a, int32_t* codes) {
  const float inverse_scale = inverse(a.scale);
  for (int i = 0; i < kGroup; ++i) {
    codes[i] = static_cast<int32_t>(nearest_code(x[i], a, inverse_scale));
  }
}

OCTAVO_INLINE void quantize_block(const float* x, Q4_1& b) {
  const Affine a = fit_group(make_group(x), false);
  b.d = to_half(scale_or_nan(x, a.scale));
  b.m = to_half(a.minimum);
  int32_t codes[kGroup];
  nearest_codes(x, {b.d.value(), b.m.value()}, codes);
  store_nibbles(codes, b);
}

// The inverse of read_super_scales.
OCTAVO_INLINE void write_super_scales(const uint8_t* scales, const uint8_t* minima,
                                      uint8_t* packed) {
  for (int j = 0; j < 4; ++j) {
    packed[j] = static_cast<uint8_t>(scales[j] | (scales[j + 4] >> 4 << 6));
    packed[j + 4] = static_cast<uint8_t>(minima[j] | (minima[j + 4] >> 4 << 6));
    packed[j + 8] = static_cast<uint8_t>((scales[j + 4] & 15) | ((minima[j + 4] & 15) << 4));
  }
}

// Eight numbers >= 0 as six-bit multiples of one, which is returned.
OCTAVO_INLINE Half six_bits(const float* values, uint8_t* codes) {
  float most = 0.0f;
  for (int g = 0; g < 8; ++g) most = values[g] > most ? values[g] : most;
  const Half unit = to_half(most / 63.0f);
  const float inverse_unit = inverse(unit.value());
  for (int g = 0; g < 8; ++g) {
    codes[g] = static_cast<uint8_t>(clamp(values[g] * inverse_unit, 0.0f, 63.0f) + 0.5f);
  }
  return unit;
}

OCTAVO_INLINE void quantize_block(const float* x, Q4_K& b) {
  float scales[8], minima[8];
  bool finite = true;
  for (int g = 0; g < 8; ++g) {
    const Affine a = fit_group(make_group(x + kGroup * g), true);
    scales[g] = a.scale;
    minima[g] = -a.minimum;
    finite = finite && all_finite(x + kGroup * g);
  }
  uint8_t scale_codes[8], minimum_codes[8];
  b.d = six_bits(scales, scale_codes);
  b.dmin = six_bits(minima, minimum_codes);
  write_super_scales(scale_codes, minimum_codes, b.scales);
  int32_t codes[8][kGroup];
  for (int g = 0; g < 8; ++g) {
    const Affine a = {b.d.value() * scale_codes[g], -(b.dmin.value() * minimum_codes[g])};
    nearest_codes(x + kGroup * g, a, codes[g]);
  }
  for (int i = 0; i < 128; ++i) {
    const int pair = i / 32, k = i % 32;
    b.low[i] = static_cast<uint8_t>(codes[2 * pair][k] | (codes[2 * pair + 1][k] << 4));
  }
  if (!finite) b.d = to_half(std::numeric_limits<float>::quiet_NaN());
}

template <typename Block>
OCTAVO_INLINE void quantize_blocks(const float* values, int64_t count, std::byte* blocks) {
  Block* out = reinterpret_cast<Block*>(blocks);
  for (int64_t i = 0; i < count / Block::kValues; ++i) {
    quantize_block(values + i * Block::kValues, out[i]);
  }
}

OCTAVO_WIDE void quantize_q8_0(const float* values, int64_t count, std::byte* blocks) {
  quantize_blocks<Q8_0>(values, count, blocks);
}
OCTAVO_WIDE void quantize_q4_0(const float* values, int64_t count, std::byte* blocks) {
  quantize_blocks<Q4_0>(values, count, blocks);
}
OCTAVO_WIDE void quantize_q4_1(const float* values, int64_t count, std::byte* blocks) {
  quantize_blocks<Q4_1>(values, count, blocks);
}
OCTAVO_WIDE void quantize_q4_k(const float* values, int64_t count, std::byte* blocks) {
  quantize_blocks<Q4_K>(values, count, blocks);
}

}  // namespace

bool can_quantize(WeightFormat target) {
  return target == WeightFormat::kQ8_0 || target == WeightFormat::kQ4_0 ||
         target == WeightFormat::kQ4_1 || target == WeightFormat::kQ4_K;
}

void quantize_row(WeightFormat target, const float* values, int64_t count, std::byte* blocks) {
  switch (target) {
    case WeightFormat::kQ8_0:
      return quantize_q8_0(values, count, blocks);
    case WeightFormat::kQ4_0:
      return quantize_q4_0(values, count, blocks);
    case WeightFormat::kQ4_1:
      return quantize_q4_1(values, count, blocks);
    case WeightFormat::kQ4_K:
      return quantize_q4_k(values, count, blocks);
    default:
      return;
  }
}

}  // namespace octavo
