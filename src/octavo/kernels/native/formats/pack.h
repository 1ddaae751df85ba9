// Reading GGUF tensor types and laying them out for the kernels. Pure functions over memory that
// the caller has checked and allocated; parallel by tile ranges. Knows nothing of files or Python.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "octavo/round_row.h"
#include "octavo/types.h"

namespace octavo {

// WeightFormat doubles as the name of a GGUF source type. Returns false for an unknown name.
bool format_from_name(std::string_view name, WeightFormat& out);
const char* format_name(WeightFormat format);

// Values per block and bytes per block of a row-major GGUF tensor of that type.
int64_t block_values(WeightFormat type);
int64_t block_bytes(WeightFormat type);

// `count` values (a whole number of blocks) as float32, bit for bit what the GGUF format defines.
void dequantize(WeightFormat type, const std::byte* source, int64_t count, float* out);

// Bytes of one tile of a packed matrix with `columns` input features; a multiple of 64.
int64_t packed_tile_bytes(WeightFormat format, int64_t columns);
// Whether `columns` fits the packed format (a multiple of kGroup, of 256 for the K formats; any for
// floats).
bool columns_fit(WeightFormat format, int64_t columns);

// Fill tiles [first_tile, last_tile) of `out` (fields set, memory at out.data writable) from a
// row-major source. Output row i is source row row_order[i], or i when row_order is null.
// out.format is source_type or one that `round` makes of floats.
void pack_tiles(WeightFormat source_type, const std::byte* source, const int32_t* row_order,
                RoundRow round, const PackedMatrix& out, int64_t first_tile, int64_t last_tile);

// Row `row` of a packed matrix as float32, [columns]. Exact: what the kernels multiply with.
void unpack_row(const PackedMatrix& matrix, int64_t row, float* out);

}  // namespace octavo
