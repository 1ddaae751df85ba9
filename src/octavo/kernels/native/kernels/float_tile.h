// Tile products of F32, F16 and BF16 weights with float activations: one fused multiply-add per k.
#pragma once

#include "kernels/tile_product.h"

namespace octavo::OCTAVO_LEVEL {

template <WeightFormat kFormat>
OCTAVO_INLINE F32x16 load_weights(const std::byte* tile, int64_t k) {
  if constexpr (kFormat == WeightFormat::kF32) {
    return load(reinterpret_cast<const float*>(tile) + k * kTileColumns);
  }
  const uint16_t* halves = reinterpret_cast<const uint16_t*>(tile) + k * kTileColumns;
  return kFormat == WeightFormat::kF16 ? load_f16(halves) : load_bf16(halves);
}

template <WeightFormat kFormat, int R>
void float_tile_product(const std::byte* tile, ActivationRows activations, int64_t columns,
                        int64_t /*ahead*/, float* out) {
  F32x16 acc[R];
  for (int r = 0; r < R; ++r) acc[r] = zero_f32();
  const float* rows[R];
  for (int r = 0; r < R; ++r) {
    rows[r] = reinterpret_cast<const float*>(activations.data + r * activations.row_stride);
  }
  for (int64_t k = 0; k < columns; ++k) {
    const F32x16 w = load_weights<kFormat>(tile, k);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) acc[r] = fma(splat(rows[r][k]), w, acc[r]);
  }
  for (int r = 0; r < R; ++r) store(out + r * kTileColumns, acc[r]);
}

}  // namespace octavo::OCTAVO_LEVEL
