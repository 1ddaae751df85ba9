// The scale of a group of floats that is rounded to int8 symmetrically, shared by activations and
// key/value pages. Knows neither layout.
#pragma once

#include <cstdint>
#include <cstring>

#include "simd/vec.h"

namespace octavo::OCTAVO_LEVEL {

// As bits, so that NaN and infinity are the largest magnitudes.
OCTAVO_INLINE I32x16 magnitude_bits(F32x16 x) { return f32_bits(abs(x)); }

struct Int8Scale {
  float scale;    // max|x| / 127; 0 where all is zero; NaN where anything is not finite
  float inverse;  // 127 / max|x|, or 0 in both of these cases

  // Rounded to nearest, ties to even. 0 * infinity must not become a code.
  OCTAVO_INLINE I32x16 codes(F32x16 x) const {
    return inverse == 0.0f ? zero_i32() : to_i32(x * splat(inverse));
  }
};

// max_bits: the largest of magnitude_bits in each lane.
OCTAVO_INLINE Int8Scale int8_scale(I32x16 max_bits) {
  constexpr int32_t kTiniest = 0x0d800000;  // 2^-100: below it, 127 / max|x| may overflow
  constexpr int32_t kInfinity = 0x7f800000;
  const int32_t greatest = reduce_max(max_bits);
  if (greatest >= kInfinity) return {__builtin_nanf(""), 0.0f};
  if (greatest < kTiniest) return {0.0f, 0.0f};
  float amax;
  std::memcpy(&amax, &greatest, 4);
  return {amax / 127.0f, 127.0f / amax};
}

}  // namespace octavo::OCTAVO_LEVEL
