// The gates of gated MLPs, as functions of vectors: act(gate) * up.
#pragma once

#include "simd/vec.h"

namespace octavo::OCTAVO_LEVEL {

OCTAVO_INLINE F32x16 silu(F32x16 x) { return x * sigmoid(x); }

// The tanh approximation of GELU (arXiv:1606.08415): 0.5 x (1 + tanh z) = x * sigmoid(2z) with
// z = sqrt(2/pi) (x + 0.044715 x^3); the sigmoid form keeps its digits where tanh is near -1.
OCTAVO_INLINE F32x16 gelu_tanh(F32x16 x) {
  const F32x16 cubic = fma(splat(0.044715f) * x, x * x, x);
  return x * sigmoid(splat(1.5957691216057308f) * cubic);
}

}  // namespace octavo::OCTAVO_LEVEL
