// Root-mean-square normalisation of one row (arXiv:1910.07467). Knows nothing of operands or
// workers.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/elementwise.h"
#include "simd/vec.h"

namespace octavo::OCTAVO_LEVEL {

// Sum of x[i]^2, in four vectors of lanes that are folded in a fixed order.
inline float sum_of_squares(const float* x, int64_t width) {
  F32x16 sums[4] = {zero_f32(), zero_f32(), zero_f32(), zero_f32()};
  int64_t i = 0;
  for (; i + 4 * kLanes <= width; i += 4 * kLanes) {
    for (int k = 0; k < 4; ++k) {
      const F32x16 v = load(x + i + k * kLanes);
      sums[k] = fma(v, v, sums[k]);
    }
  }
  for (; i < width; i += kLanes) {
    const F32x16 v = i + kLanes <= width ? load(x + i) : load_part(x + i, width - i);
    sums[0] = fma(v, v, sums[0]);
  }
  return reduce_sum((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

// 1 / sqrt(mean(x^2) + eps), to full float precision.
inline float inverse_rms(const float* x, int64_t width, float eps) {
  return 1.0f / std::sqrt(sum_of_squares(x, width) / static_cast<float>(width) + eps);
}

// y = x * inverse_rms * weight, on some columns; y may be x.
OCTAVO_INLINE void apply_rms_norm(const float* x, const float* weight, int64_t count,
                                  float inverse_rms, float* y) {
  const F32x16 scale = splat(inverse_rms);
  apply(count, [scale](F32x16 v, F32x16 w) { return v * scale * w; }, y, x, weight);
}

// y = x / rms(x) * weight; y may be x.
inline void rms_norm_row(const float* x, const float* weight, int64_t width, float eps, float* y) {
  apply_rms_norm(x, weight, width, inverse_rms(x, width, eps), y);
}

// y += x / rms(x) * weight.
inline void rms_norm_add_row(const float* x, const float* weight, int64_t width, float eps,
                             float* y) {
  const F32x16 scale = splat(inverse_rms(x, width, eps));
  apply(
      width, [scale](F32x16 v, F32x16 w, F32x16 old) { return old + v * scale * w; }, y, x, weight,
      static_cast<const float*>(y));
}

}  // namespace octavo::OCTAVO_LEVEL
