// Scales of floats that are rounded to integer codes symmetrically: of groups of activations, and
// of keys, values, queries and softmax weights in attention. Knows no layout.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "simd/vec.h"

namespace octavo::OCTAVO_LEVEL {

// As bits, so that NaN and infinity are the largest magnitudes.
OCTAVO_INLINE I32x16 magnitude_bits(F32x16 x) { return f32_bits(abs(x)); }

struct CodeScale {
  float scale;    // a code's value; 0 where all is zero; NaN where anything is not finite
  float inverse;  // its inverse, or 0 in both of these cases

  // Rounded to nearest, ties to even. 0 * infinity must not become a code.
  OCTAVO_INLINE I32x16 codes(F32x16 x) const {
    return inverse == 0.0f ? zero_i32() : to_i32(x * splat(inverse));
  }
};

// The greatest magnitude becomes the code `limit`. max_bits: the largest of magnitude_bits in each
// lane.
OCTAVO_INLINE CodeScale scale_by_maximum(I32x16 max_bits, float limit) {
  constexpr int32_t kTiniest = 0x0d800000;  // 2^-100: below it, limit / max|x| may overflow
  constexpr int32_t kInfinity = 0x7f800000;
  const int32_t greatest = reduce_max(max_bits);
  if (greatest >= kInfinity) return {__builtin_nanf(""), 0.0f};
  if (greatest < kTiniest) return {0.0f, 0.0f};
  float amax;
  std::memcpy(&amax, &greatest, 4);
  return {amax / limit, limit / amax};
}
OCTAVO_INLINE CodeScale int8_scale(I32x16 max_bits) { return scale_by_maximum(max_bits, 127.0f); }

// A vector of this sum of squares comes to the length `limit`, and so does what its codes are of:
// the product of two such vectors, and every part of its sum, is at most about the limits' product
// (Cauchy and Schwarz).
OCTAVO_INLINE CodeScale scale_by_length(float sum_of_squares, float limit) {
  constexpr float kTiniest = 7.8886091e-31f;  // 2^-100: far from what underflows
  if (!(sum_of_squares < __builtin_inff())) return {__builtin_nanf(""), 0.0f};
  if (sum_of_squares < kTiniest) return {0.0f, 0.0f};
  const float length = std::sqrt(sum_of_squares);
  return {length / limit, limit / length};
}

}  // namespace octavo::OCTAVO_LEVEL
