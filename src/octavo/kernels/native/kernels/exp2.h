// Powers of two of vectors: the exponential of the attention kernel.
#pragma once

#include "simd/vec.h"

namespace octavo::OCTAVO_LEVEL {

// 2^x for x <= 0, relative error below 2e-7; 0 where x < -126, so that no result is subnormal; NaN
// stays NaN. 2^r on |r| <= 1/2 is a polynomial fitted for the least greatest relative error.
OCTAVO_INLINE F32x16 exp2_of_negative(F32x16 x) {
  const F32x16 kLow = splat(-126.0f);
  const F32x16 clamped = max(kLow, x);  // the second operand where either is NaN
  const F32x16 n = round_even(clamped), r = clamped - n;
  F32x16 p = splat(1.3264726899e-3f);
  p = fma(p, r, splat(9.6715126606e-3f));
  p = fma(p, r, splat(5.5507337442e-2f));
  p = fma(p, r, splat(2.4022242085e-1f));
  p = fma(p, r, splat(6.9314697760e-1f));
  p = fma(p, r, splat(1.0f));
  return select_less(x, kLow, zero_f32(), times_power_of_two(p, n));
}

}  // namespace octavo::OCTAVO_LEVEL
