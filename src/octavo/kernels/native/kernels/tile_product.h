// One tile of a packed matrix times a few activation rows: the inner loop of every matrix kernel.
// Knows nothing of operands, of workers, or of what becomes of the result.
#pragma once

#include <cstddef>
#include <cstdint>

#include "octavo/types.h"
#include "simd/vec.h"

namespace octavo::OCTAVO_LEVEL {

// Rows of activations: an int8 panel (formats/activation.h), or float rows `row_stride` bytes
// apart.
struct ActivationRows {
  const std::byte* data;
  int64_t row_stride;
};

// out[row][lane] = sum over k of activation[row][k] * weight[lane][k]. Each (row, lane) is summed
// in ascending k by the same operations whatever the number of rows.
using TileProduct = void (*)(const std::byte* tile, ActivationRows activations, int64_t columns,
                             float* out);

// The product for `rows` (1..kRowBlock) rows.
TileProduct tile_product(WeightFormat format, int rows);

}  // namespace octavo::OCTAVO_LEVEL
