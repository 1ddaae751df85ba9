// Tile products of F32, F16 and BF16 weights with float panels (float_panel.h).
#pragma once

#include "kernels/float_panel.h"
#include "kernels/register_tile.h"
#include "kernels/tile_product.h"
#include "simd/bf16.h"

namespace octavo::OCTAVO_LEVEL {

// Whether even and odd steps of k have sums of their own, added at the end. One sum would wait for
// itself when a panel has few rows; two do not fit the registers of the lower levels.
#if defined(OCTAVO_AVX512)
inline constexpr bool kTwoSums = true;
#else
inline constexpr bool kTwoSums = false;
#endif

// The weights of column k, which is even (kOdd 0), or of the one behind it.
template <WeightFormat kFormat, int kOdd>
OCTAVO_INLINE F32x16 load_weights(const std::byte* tile, int64_t k) {
  if constexpr (kFormat == WeightFormat::kF32) {
    return load(reinterpret_cast<const float*>(tile) + (k + kOdd) * kTileColumns);
  } else if constexpr (kFormat == WeightFormat::kF16) {
    return load_f16(reinterpret_cast<const uint16_t*>(tile) + (k + kOdd) * kTileColumns);
  } else {
    const I32x16 line = load_i32(reinterpret_cast<const int32_t*>(tile) + k / 2 * kTileColumns);
    return kOdd ? odd_bf16(line) : even_bf16(line);
  }
}

// Whether weights are fetched ahead: one row of F32 was read 1.25 times as fast without, of 16-bit
// weights 0.85 times, six rows 0.78 times (Zen 3, benchmarks.kernels.linear).
template <WeightFormat kFormat>
inline constexpr bool kFetchesWeights = kStreamAhead > 0 && kFormat != WeightFormat::kF32;

// Whether the sums of R rows take so many registers that weights are read when they are wanted. Of
// few rows the compiler reads more of them ahead (one row of F32 1.05 times as fast).
template <int R>
inline constexpr bool kManySums = !kTwoSums && R > 2;

// `tile`, of which the compiler does not know that it was read.
OCTAVO_INLINE const std::byte* again(const std::byte* tile) {
  asm("" : "+r"(tile));
  return tile;
}

// sums[r] += the weights of a column times x[r * kLanes].
template <int R>
OCTAVO_INLINE void add_column(F32x16 (&sums)[R], F32x16 w, const float* x) {
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
    if constexpr (kManySums<R>) {
      add_scaled(sums[r], w, x + r * kLanes);
    } else {
      sums[r] = fma(splat(x[r * kLanes]), w, sums[r]);
    }
  }
}

// `count` columns of a line of each row; tile and line are padded to an even number.
template <WeightFormat kFormat, int R>
OCTAVO_INLINE void add_f32_line(const std::byte* tile, int64_t first, int64_t count,
                                const float* line, F32x16 (&even)[R], F32x16 (&odd)[R]) {
  for (int64_t k = 0; k < count; k += 2) {
    if constexpr (kFetchesWeights<kFormat>) {
      __builtin_prefetch(tile + (first + k) / 2 * kLineBytes + kStreamAhead);
    }
    add_column(even, load_weights<kFormat, 0>(tile, first + k), line + k);
    const std::byte* const next = kManySums<R> ? again(tile) : tile;
    add_column(kTwoSums ? odd : even, load_weights<kFormat, 1>(next, first + k), line + k + 1);
  }
}

template <int R>
OCTAVO_INLINE void clear(F32x16 (&even)[R], F32x16 (&odd)[R]) {
#pragma GCC unroll 16  // every loop over the rows: one that is not keeps the sums in memory
  for (int r = 0; r < R; ++r) even[r] = odd[r] = zero_f32();
}
template <int R>
OCTAVO_INLINE void store_sums(const F32x16 (&even)[R], const F32x16 (&odd)[R], float* out) {
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
    store(out + r * kTileColumns, kTwoSums ? even[r] + odd[r] : even[r]);
  }
}

template <WeightFormat kFormat, int R>
void f32_tile_product(const std::byte* tile, ActivationRows activations, int64_t columns,
                      int64_t /*ahead*/, float* out) {
  F32x16 even[R], odd[R];
  clear(even, odd);
  const float* line = reinterpret_cast<const float*>(activations.data);
  int64_t k = 0;
  for (; k + kLanes <= columns; k += kLanes, line += R * kLanes) {
    add_f32_line<kFormat>(tile, k, kLanes, line, even, odd);
  }
  add_f32_line<kFormat>(tile, k, columns - k, line, even, odd);
  store_sums(even, odd, out);
}

#if defined(OCTAVO_LEVEL_avx512_bf16) && !defined(OCTAVO_LEVEL_amx)

// `count` pairs of k, the first at `weights`; `ahead` as for TileProduct.
template <int R>
OCTAVO_INLINE void add_bf16_line(const int32_t* weights, int64_t count, int64_t ahead,
                                 const std::byte* line, F32x16 (&even)[R], F32x16 (&odd)[R]) {
  int64_t pair = 0;
  for (; pair + 2 <= count; pair += 2, line += 8, weights += 2 * kTileColumns) {
    const I32x16 w = load_i32(weights), next = load_i32(weights + kTileColumns);
    for (int i = 0; i < 2; ++i) {
      __builtin_prefetch(reinterpret_cast<const std::byte*>(weights) + ahead + i * kLineBytes);
    }
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) even[r] = dot_bf16(even[r], w, line + r * kLineBytes);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) odd[r] = dot_bf16(odd[r], next, line + r * kLineBytes + 4);
  }
  if (pair == count) return;
  const I32x16 last = load_i32(weights);
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) even[r] = dot_bf16(even[r], last, line + r * kLineBytes);
}

template <int R>
void bf16_tile_product(const std::byte* tile, ActivationRows activations, int64_t columns,
                       int64_t ahead, float* out) {
  constexpr int64_t kPairs = kLineBytes / 4;  // of a line
  F32x16 even[R], odd[R];
  clear(even, odd);
  const int32_t* weights = reinterpret_cast<const int32_t*>(tile);
  const std::byte* line = activations.data;
  int64_t pairs = (columns + 1) / 2;
  for (; pairs >= kPairs; pairs -= kPairs, line += R * kLineBytes) {
    add_bf16_line(weights, kPairs, ahead, line, even, odd);
    weights += kPairs * kTileColumns;
  }
  add_bf16_line(weights, pairs, ahead, line, even, odd);
  store_sums(even, odd, out);
}

#endif

template <WeightFormat kFormat, int R>
constexpr TileProduct float_tile_product() {
#if defined(OCTAVO_LEVEL_amx)
  if constexpr (kFormat == WeightFormat::kBF16) return register_bf16_product<R>;
#elif defined(OCTAVO_LEVEL_avx512_bf16)
  if constexpr (kFormat == WeightFormat::kBF16) return bf16_tile_product<R>;
#endif
  return f32_tile_product<kFormat, R>;
}

}  // namespace octavo::OCTAVO_LEVEL
