// One level's rounding of weights to GGUF's types. The order of every sum is that of reduce_sum and
// nothing is fused, so that every level makes the same bits.
#include <cmath>
#include <cstring>
#include <limits>

#include "formats/gguf_blocks.h"
#include "formats/half.h"
#include "kernels/kernels.h"
#include "simd/vec.h"

namespace octavo::OCTAVO_LEVEL {
namespace {

using namespace gguf;

// A group of kGroup values, or of numbers that belong to them.
struct Group {
  F32x16 low, high;
};

OCTAVO_INLINE F32x16 clamp(F32x16 x, float low, float high) {
  return min(max(x, splat(low)), splat(high));  // NaN becomes low
}
OCTAVO_INLINE float greatest(const Group& x) { return reduce_max(max(x.low, x.high)); }
OCTAVO_INLINE float least(const Group& x) {
  return -reduce_max(max(zero_f32() - x.low, zero_f32() - x.high));
}
OCTAVO_INLINE float largest_magnitude(const Group& x) {
  return reduce_max(max(abs(x.low), abs(x.high)));
}
OCTAVO_INLINE float sum(const Group& x) { return reduce_sum(x.low + x.high); }

OCTAVO_INLINE Group load_group(const float* x) { return {load(x), load(x + kLanes)}; }
OCTAVO_INLINE bool all_finite(const Group& x) {
  return sum({x.low * zero_f32(), x.high * zero_f32()}) == 0.0f;
}
OCTAVO_INLINE float inverse(float x) {
  const float result = 1.0f / x;
  return __builtin_isfinite(result) ? result : 0.0f;
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
  const F32x16 magnitude = abs(x), whole = to_f32(truncate(magnitude));
  const F32x16 rounded = whole + to_f32(truncate((magnitude - whole) * splat(2.0f)));
  return truncate(select_less(x, zero_f32(), zero_f32() - rounded, rounded));
}

OCTAVO_INLINE void store_codes(I32x16 codes, uint8_t* out) {
  store_i8(reinterpret_cast<int8_t*>(out), codes);
}
// Sixteen bytes from their nibbles; signed first, because the store saturates.
OCTAVO_INLINE void store_nibbles(I32x16 low, I32x16 high, uint8_t* out) {
  const I32x16 bytes = low + shift_left<4>(high);
  store_codes(bytes - shift_left<1>(bytes & splat_i32(0x80)), out);
}

OCTAVO_INLINE void quantize_block(const float* values, Q8_0& b) {
  const Group x = load_group(values);
  const float d = largest_magnitude(x) / 127.0f;
  const F32x16 id = splat(inverse(d));
  store_codes(round_away(clamp(x.low * id, -127.0f, 127.0f)), b.codes);
  store_codes(round_away(clamp(x.high * id, -127.0f, 127.0f)), b.codes + kLanes);
  b.d = scale_or_nan(x, d);
}

// The first value of the largest magnitude.
OCTAVO_INLINE float extreme(const Group& x, const float* values) {
  const float most = greatest(x), fewest = least(x);
  if (most != -fewest) return most > -fewest ? most : fewest;
  for (int i = 0; i < kGroup; ++i) {
    if (std::fabs(values[i]) == most) return values[i];
  }
  return 0.0f;
}

OCTAVO_INLINE void quantize_block(const float* values, Q4_0& b) {
  const Group x = load_group(values);
  const float d = extreme(x, values) / -8.0f;
  const F32x16 id = splat(inverse(d)), middle = splat(8.5f);
  store_nibbles(truncate(clamp(x.low * id + middle, 0.0f, 15.0f)),
                truncate(clamp(x.high * id + middle, 0.0f, 15.0f)), b.low);
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
  return truncate(clamp(scaled, 0.0f, kMaxCode) + splat(0.5f));
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
  const float high = greatest(x), low = least(x);
  const float minimum = minimum_below_zero && low > 0.0f ? 0.0f : low;
  const float range = high - minimum;
  if (!(range > 0.0f)) return {0.0f, minimum};
  const Weighting k = weighting(x);
  // All trials first: which of them is best cannot be foretold, and a branch that was waits for the
  // whole of a trial (Q4_K 1.27 times as fast).
  Fit fits[kTrials];
  for (int trial = 0; trial < kTrials; ++trial) {
    const float steps = kMaxCode - 1.0f + 0.2f * static_cast<float>(trial);
    const Group codes = {to_f32(nearest_codes(x.low, minimum, steps / range)),
                         to_f32(nearest_codes(x.high, minimum, steps / range))};
    fits[trial] = best_affine(k, codes, minimum_below_zero);
  }
  Fit best = {{range / kMaxCode, minimum}, std::numeric_limits<float>::infinity()};
  for (const Fit& fit : fits) {
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
  store_nibbles(nearest_codes(x.low, minimum, id), nearest_codes(x.high, minimum, id), b.low);
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

struct GroupCodes {
  I32x16 low, high;
};
OCTAVO_INLINE GroupCodes super_codes(const float* values, const Q4_K& b, int scale_code,
                                     int minimum_code) {
  const Group x = load_group(values);
  const float id = inverse(b.d.value() * static_cast<float>(scale_code));
  const float minimum = -(b.dmin.value() * static_cast<float>(minimum_code));
  return {nearest_codes(x.low, minimum, id), nearest_codes(x.high, minimum, id)};
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
    const GroupCodes first = super_codes(values + kGroup * g, b, scale_codes[g], minimum_codes[g]);
    const GroupCodes second =
        super_codes(values + kGroup * (g + 1), b, scale_codes[g + 1], minimum_codes[g + 1]);
    store_nibbles(first.low, second.low, b.low + 16 * g);
    store_nibbles(first.high, second.high, b.low + 16 * g + kLanes);
  }
  if (!finite) b.d = to_half(std::numeric_limits<float>::quiet_NaN());
}

template <typename Block>
void quantize_blocks(const float* values, int64_t count, std::byte* blocks) {
  Block* out = reinterpret_cast<Block*>(blocks);
  for (int64_t i = 0; i < count / Block::kValues; ++i) {
    quantize_block(values + i * Block::kValues, out[i]);
  }
}

// With the vectors' conversion for sixteen numbers and the single one's for the rest.
template <void (*kStore)(uint16_t*, F32x16), uint16_t (*kConvert)(float)>
void round_halves(const float* values, int64_t count, std::byte* halves) {
  uint16_t* const out = reinterpret_cast<uint16_t*>(halves);
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) kStore(out + i, load(values + i));
  for (; i < count; ++i) out[i] = kConvert(values[i]);
}

}  // namespace

void round_row(WeightFormat target, const float* values, int64_t count, std::byte* blocks) {
  switch (target) {
    case WeightFormat::kF32:
      std::memcpy(blocks, values, static_cast<size_t>(count) * sizeof(float));
      return;
    case WeightFormat::kF16:
      return round_halves<store_f16, f32_to_f16>(values, count, blocks);
    case WeightFormat::kBF16:
      return round_halves<store_bf16, f32_to_bf16>(values, count, blocks);
    case WeightFormat::kQ8_0:
      return quantize_blocks<Q8_0>(values, count, blocks);
    case WeightFormat::kQ4_0:
      return quantize_blocks<Q4_0>(values, count, blocks);
    case WeightFormat::kQ4_1:
      return quantize_blocks<Q4_1>(values, count, blocks);
    case WeightFormat::kQ4_K:
      return quantize_blocks<Q4_K>(values, count, blocks);
    default:
      return;
  }
}

}  // namespace octavo::OCTAVO_LEVEL
