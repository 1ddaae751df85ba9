// One tile of a packed matrix times a few activation rows: the inner loop of every matrix kernel.
// Knows nothing of operands, of workers, or of what becomes of the result.
#pragma once

#include <cstddef>
#include <cstdint>

#include "octavo/types.h"
#include "simd/vec.h"

namespace octavo::OCTAVO_LEVEL {

// A panel of activation rows: int8 (formats/activation.h) or float (kernels/float_panel.h).
struct ActivationRows {
  const std::byte* data;
};

// out[row][lane] = sum over k of activation[row][k] * weight[lane][k]. Each (row, lane) is summed
// by the same operations in the same order whatever the number of rows. The bytes `ahead` of the
// tile are those that will be wanted next: the processor's own prefetching ends at each page, and a
// tile is hardly longer (62 instead of 55 % of the dot product rate at 32 rows of SmolLM2).
using TileProduct = void (*)(const std::byte* tile, ActivationRows activations, int64_t columns,
                             int64_t ahead, float* out);

// Bytes ahead that weights are fetched which are read once, where the processor's own prefetching
// needs help; 0 where it does not, or this has not been measured. On Zen 3 at 2 threads 1024 bytes
// decode Qwen2.5-1.5B Q4_K_M 1.25 times as fast as none, gemma-3-270m 1.10, SmolLM2 Q4_1 1.05 times
// (octavo bench latency); 512 to 4096 do less. On Zen 4 one row of Q4_K was 1.2 times as fast
// without as with the next tile fetched; shorter distances have not been tried there.
#if defined(OCTAVO_AVX2)
inline constexpr int64_t kStreamAhead = 1024;
#else
inline constexpr int64_t kStreamAhead = 0;
#endif

// The product for `rows` (1..kRowBlock) rows.
TileProduct tile_product(WeightFormat format, int rows);

// The same for tiles that have been unpacked (kernels/unpacked_tile.h), of formats for which
// is_unpacked holds: to the same bits. The lines of the packed tile `next` are fetched on the way.
using UnpackTile = void (*)(const std::byte* tile, int64_t columns, std::byte* out);
using UnpackedProduct = void (*)(const std::byte* unpacked, ActivationRows activations,
                                 int64_t columns, const std::byte* next, float* out);
UnpackTile unpack_tile(WeightFormat format);
UnpackedProduct unpacked_product(WeightFormat format, int rows);

}  // namespace octavo::OCTAVO_LEVEL
