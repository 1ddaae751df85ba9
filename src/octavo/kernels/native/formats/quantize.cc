// The quantisers. Sums go over sixteen lanes, so that they have the same order for every vector
// width.
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
// Vectors are passed to inlined functions only.
#pragma GCC diagnostic ignored "-Wpsabi"

namespace octavo {
namespace {

using namespace gguf;

// Sixteen lanes as the compilers' vector types: loops over arrays they leave scalar.
constexpr int kLanes = 16;
typedef float F32x16 __attribute__((vector_size(64)));
typedef int32_t I32x16 __attribute__((vector_size(64)));
typedef float F32x8 __attribute__((vector_size(32)));
typedef float F32x4 __attribute__((vector_size(16)));

// A group of kGroup values, or of numbers that belong to them.
struct Group {
  F32x16 low, high;
};

OCTAVO_INLINE F32x16 splat(float x) { return F32x16{} + x; }
OCTAVO_INLINE F32x16 max(F32x16 a, F32x16 b) { return a > b ? a : b; }
OCTAVO_INLINE F32x16 min(F32x16 a, F32x16 b) { return a < b ? a : b; }
OCTAVO_INLINE F32x16 clamp(F32x16 x, float low, float high) {
  return min(max(x, splat(low)), splat(high));  // NaN becomes low
}
OCTAVO_INLINE F32x16 abs(F32x16 x) { return (F32x16)((I32x16)x & 0x7fffffff); }
OCTAVO_INLINE I32x16 to_i32(F32x16 x) { return __builtin_convertvector(x, I32x16); }
OCTAVO_INLINE F32x16 to_f32(I32x16 x) { return __builtin_convertvector(x, F32x16); }

// One number from all lanes: halves are combined until one is left.
template <class Combine>
OCTAVO_INLINE float reduce(F32x16 x, Combine combine) {
  F32x8 eight[2];
  std::memcpy(eight, &x, sizeof(x));
  const F32x8 y = combine(eight[0], eight[1]);
  F32x4 four[2];
  std::memcpy(four, &y, sizeof(y));
  const F32x4 z = combine(four[0], four[1]);
  return combine(combine(z[0], z[2]), combine(z[1], z[3]));
}
OCTAVO_INLINE float sum(F32x16 x) {
  return reduce(x, [](auto a, auto b) __attribute__((always_inline)) { return a + b; });
}
OCTAVO_INLINE float largest(F32x16 x) {
  return reduce(x, [](auto a, auto b) __attribute__((always_inline)) { return a > b ? a : b; });
}
OCTAVO_INLINE float sum(const Group& x) { return sum(x.low + x.high); }

OCTAVO_INLINE Group load_group(const float* x) {
  Group g;
  std::memcpy(&g.low, x, sizeof(g.low));
  std::memcpy(&g.high, x + kLanes, sizeof(g.high));
  return g;
}
OCTAVO_INLINE bool all_finite(const Group& x) {
  return sum(x.low * splat(0.0f) + x.high * splat(0.0f)) == 0.0f;
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
OCTAVO_INLINE Half scale_or_nan(const Group& x, float scale) {
  return to_half(all_finite(x) ? scale : std::numeric_limits<float>::quiet_NaN());
}

// To nearest, halves away from zero.
OCTAVO_INLINE I32x16 round_away(F32x16 x) {
  const F32x16 magnitude = abs(x);
  const I32x16 whole = to_i32(magnitude);
  const I32x16 rounded = whole + to_i32((magnitude - to_f32(whole)) * splat(2.0f));
  return x < splat(0.0f) ? -rounded : rounded;
}

OCTAVO_INLINE void store_bytes(I32x16 x, uint8_t* out) {
  for (int i = 0; i < kLanes; ++i) out[i] = static_cast<uint8_t>(x[i]);
}

OCTAVO_INLINE void quantize_block(const float* values, Q8_0& b) {
  const Group x = load_group(values);
  const float d = largest(max(abs(x.low), abs(x.high))) / 127.0f;
  const F32x16 id = splat(inverse(d));
  store_bytes(round_away(clamp(x.low * id, -127.0f, 127.0f)), b.codes);
  store_bytes(round_away(clamp(x.high * id, -127.0f, 127.0f)), b.codes + kLanes);
  b.d = scale_or_nan(x, d);
}

OCTAVO_INLINE void quantize_block(const float* values, Q4_0& b) {
  const Group x = load_group(values);
  const float magnitude = largest(max(abs(x.low), abs(x.high)));
  float extreme = 0.0f;  // the first of this magnitude, with its sign
  for (int i = kGroup - 1; i >= 0; --i) {
    extreme = std::fabs(values[i]) == magnitude ? values[i] : extreme;
  }
  const float d = extreme / -8.0f;
  const F32x16 id = splat(inverse(d)), middle = splat(8.5f);
  const I32x16 low = to_i32(clamp(x.low * id + middle, 0.0f, 15.0f));
  const I32x16 high = to_i32(clamp(x.high * id + middle, 0.0f, 15.0f));
  store_bytes(low | (high << 4), b.low);
  b.d = scale_or_nan(x, d);
}

// ---- Four bits with a minimum: x ~ scale * code + minimum ----

constexpr float kMaxCode = 15.0f;

struct Affine {
  float scale;
  float minimum;
};

OCTAVO_INLINE I32x16 nearest_codes(F32x16 x, float minimum, float inverse_scale) {
  const F32x16 scaled = (x - splat(minimum)) * splat(inverse_scale);
  return to_i32(clamp(scaled, 0.0f, kMaxCode) + splat(0.5f));
}

// What the errors of a group weigh, and the sums that do not depend on its codes. Large values
// weigh more, as in ggml's reference quantisers: their products are what sums are made of.
struct Weighting {
  Group w, wx;
  float sum_w, sum_wx, sum_wxx;
};

OCTAVO_INLINE Weighting weighting(const Group& x) {
  const float mean_square = sum({x.low * x.low, x.high * x.high}) / kGroup;
  const F32x16 rms = splat(std::sqrt(mean_square));
  Weighting k;
  k.w = {rms + abs(x.low), rms + abs(x.high)};
  k.wx = {k.w.low * x.low, k.w.high * x.high};
  k.sum_w = sum(k.w);
  k.sum_wx = sum(k.wx);
  k.sum_wxx = sum({k.wx.low * x.low, k.wx.high * x.high});
  return k;
}

struct Fit {
  Affine affine;
  float error;  // weighted sum of squares
};

// The scale and minimum of least error for given codes. Infinite error where the codes are all
// equal.
OCTAVO_INLINE Fit best_affine(const Weighting& k, const Group& codes, bool minimum_below_zero) {
  const Group wl = {k.w.low * codes.low, k.w.high * codes.high};
  const float sum_l = sum(wl), sum_ll = sum({wl.low * codes.low, wl.high * codes.high});
  const float sum_xl = sum({k.wx.low * codes.low, k.wx.high * codes.high});
  const float determinant = k.sum_w * sum_ll - sum_l * sum_l;
  if (!(determinant > 0.0f)) return {{0.0f, 0.0f}, std::numeric_limits<float>::infinity()};
  Affine a = {(k.sum_w * sum_xl - k.sum_wx * sum_l) / determinant,
              (sum_ll * k.sum_wx - sum_l * sum_xl) / determinant};
  if (minimum_below_zero && a.minimum > 0.0f) a = {sum_xl / sum_ll, 0.0f};
  return {a, k.sum_wxx - a.scale * sum_xl - a.minimum * k.sum_wx};
}

// Tries codes for ten widths of the codes' range about that of the values, and for each the best
// scale and minimum.
OCTAVO_INLINE Affine fit_group(const Group& x, bool minimum_below_zero) {
  constexpr int kTrials = 10;
  const float high = largest(max(x.low, x.high)), low = -largest(max(-x.low, -x.high));
  const float minimum = minimum_below_zero && low > 0.0f ? 0.0f : low;
  const float range = high - minimum;
  if (!(range > 0.0f)) return {0.0f, minimum};
  const Weighting k = weighting(x);
  Fit best = {{range / kMaxCode, minimum}, std::numeric_limits<float>::infinity()};
  for (int trial = 0; trial < kTrials; ++trial) {
    const float steps = kMaxCode - 1.0f + 0.2f * static_cast<float>(trial);
    const Group codes = {to_f32(nearest_codes(x.low, minimum, steps / range)),
                         to_f32(nearest_codes(x.high, minimum, steps / range))};
    const Fit fit = best_affine(k, codes, minimum_below_zero);
    if (fit.error < best.error) best = fit;
  }
  return best.affine;
}

OCTAVO_INLINE void quantize_block(const float* values, Q4_1& b) {
  const Group x = load_group(values);
  const Affine a = fit_group(x, false);
  b.d = scale_or_nan(x, a.scale);
  b.m = to_half(a.minimum);
  const float id = inverse(b.d.value()), minimum = b.m.value();
  store_bytes(nearest_codes(x.low, minimum, id) | (nearest_codes(x.high, minimum, id) << 4), b.low);
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
    const float code = values[g] * inverse_unit + 0.5f;
    codes[g] = static_cast<uint8_t>(code < 63.0f ? code : 63.0f);
  }
  return unit;
}

OCTAVO_INLINE void quantize_block(const float* values, Q4_K& b) {
  float scales[8], minima[8];
  bool finite = true;
  for (int g = 0; g < 8; ++g) {
    const Group x = load_group(values + kGroup * g);
    const Affine a = fit_group(x, true);
    scales[g] = a.scale > 0.0f ? a.scale : 0.0f;
    minima[g] = a.minimum < 0.0f ? -a.minimum : 0.0f;
    finite = finite && all_finite(x);
  }
  uint8_t scale_codes[8], minimum_codes[8];
  b.d = six_bits(scales, scale_codes);
  b.dmin = six_bits(minima, minimum_codes);
  write_super_scales(scale_codes, minimum_codes, b.scales);
  for (int g = 0; g < 8; g += 2) {  // a pair of groups shares its bytes
    uint8_t codes[2][kGroup];
    for (int i = 0; i < 2; ++i) {
      const Group x = load_group(values + kGroup * (g + i));
      const float id = inverse(b.d.value() * scale_codes[g + i]);
      const float minimum = -(b.dmin.value() * minimum_codes[g + i]);
      store_bytes(nearest_codes(x.low, minimum, id), codes[i]);
      store_bytes(nearest_codes(x.high, minimum, id), codes[i] + kLanes);
    }
    for (int k = 0; k < kGroup; ++k) {
      b.low[16 * g + k] = static_cast<uint8_t>(codes[0][k] | (codes[1][k] << 4));
    }
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
