// Rotary position embedding of one head (arXiv:2104.09864), in the halves convention.
#pragma once

#include <cstdint>

#include "kernels/elementwise.h"
#include "simd/vec.h"

namespace octavo::OCTAVO_LEVEL {

OCTAVO_INLINE void rotate_lanes(F32x16& a, F32x16& b, F32x16 cosine, F32x16 sine) {
  const F32x16 rotated = a * cosine - b * sine;
  b = b * cosine + a * sine;
  a = rotated;
}

// x: one head, whose first 2 * half columns are rotated in place.
// angles: [2 * half], cosines then sines.
inline void rotate_head(float* x, const float* angles, int64_t half) {
  int64_t i = 0;
  for (; i + kLanes <= half; i += kLanes) {
    F32x16 a = load(x + i), b = load(x + half + i);
    rotate_lanes(a, b, load(angles + i), load(angles + half + i));
    store(x + i, a);
    store(x + half + i, b);
  }
  if (const int64_t rest = half - i; rest > 0) {
    F32x16 a = load_part(x + i, rest), b = load_part(x + half + i, rest);
    rotate_lanes(a, b, load_part(angles + i, rest), load_part(angles + half + i, rest));
    store_part(x + i, a, rest);
    store_part(x + half + i, b, rest);
  }
}

}  // namespace octavo::OCTAVO_LEVEL
