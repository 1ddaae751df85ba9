// The Hadamard transform of a head's vector, taken of keys before they are rounded to int8 and of
// the queries that meet them (arXiv:2404.00456): products stay what they are, and a few channels
// much larger than the rest, which would set the step of all codes, are spread over the head.
#pragma once

#include <cstdint>

#include "simd/vec.h"

namespace octavo::OCTAVO_LEVEL {

// Channels that are mixed: the greatest power of two that divides head_dim, at least 16.
OCTAVO_INLINE int64_t hadamard_size(int64_t head_dim) { return head_dim & -head_dim; }

// Lane i and lane i ^ kHalf, where i has that bit clear, become their sum and their difference.
template <int kHalf>
OCTAVO_INLINE F32x16 butterfly_lanes(F32x16 x) {
  alignas(64) static constexpr auto kSigns = [] {
    struct {
      float of[kLanes];
    } signs{};
    for (int i = 0; i < kLanes; ++i) signs.of[i] = (i & kHalf) == 0 ? 1.0f : -1.0f;
    return signs;
  }();
  return fma(x, load(kSigns.of), swap_lanes<kHalf>(x));
}

// In place, without the factor 1 / sqrt(size): the product of two transformed vectors is `size`
// times theirs. Adds in one order on every level.
inline void hadamard(float* x, int64_t head_dim) {
  for (int64_t d = 0; d < head_dim; d += kLanes) {
    F32x16 line = butterfly_lanes<2>(butterfly_lanes<1>(load(x + d)));
    store(x + d, butterfly_lanes<8>(butterfly_lanes<4>(line)));
  }
  for (int64_t half = kLanes; half < hadamard_size(head_dim); half *= 2) {
    for (int64_t d = 0; d < head_dim; d += kLanes) {
      if ((d & half) != 0) continue;
      const F32x16 a = load(x + d), b = load(x + d + half);
      store(x + d, a + b);
      store(x + d + half, a - b);
    }
  }
}

}  // namespace octavo::OCTAVO_LEVEL
