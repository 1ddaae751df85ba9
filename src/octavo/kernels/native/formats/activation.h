// The int8 activation layout (DType::kQ8): groups of 32 values with one float scale, in row panels.
#pragma once

#include <cstdint>

#include "octavo/types.h"

namespace octavo {

// A panel is up to `row_block` consecutive rows whose groups are interleaved, so that the matrix
// kernel streams it. Panel of R rows, for each group of kGroup columns:
//   int8    values[8][R][4]   quad q of row r: columns 4q .. 4q+3 of the group; on the level amx
//                             values[R][8][4]
//   float   scale[R]          value = scale * int8
//   float   sum[R]            scale * (sum of the group's int8 values), for formats with a minimum
//   int32   minus_first[R]    minus the sum of its first 16 int8 values
//   int32   minus_last[R]     and of its last 16: where the sums of formats with a zero point begin
// On the level avx2, which multiplies pairs into int16 (OCTAVO_PAIR_SUMS), these two are instead
//   int16   minus_all[R][2]   minus the sums of columns 4q, 4q + 1 of all quads, and of 4q + 2, 4q
//   + 3 int16   minus_last[R][2]  of the last 4 quads
// i.e. kGroup + 16 bytes per row and group. A group with a NaN or infinity in it has scale NaN and
// values 0, so that whatever it is multiplied with becomes NaN. The panel of rows [r0, r0 + R)
// starts at r0 * activation_row_bytes(columns), so that values of any row count are dense.
inline constexpr int kGroupRowBytes = kGroup + 16;

constexpr int64_t activation_row_bytes(int64_t columns) {
  const int64_t bytes = (columns + kGroup - 1) / kGroup * kGroupRowBytes;
  return (bytes + 63) / 64 * 64;
}

// Rows are split into panels of nearly equal size, none above row_block; more than one panel are an
// even number, so that two workers have as many each. Panel p of `rows` rows:
struct Panel {
  int32_t first_row;
  int32_t rows;
};
constexpr int32_t num_panels(int32_t rows, int32_t row_block) {
  const int32_t n = (rows + row_block - 1) / row_block;
  return n > 1 ? (n + 1) / 2 * 2 : n;
}
constexpr Panel panel(int32_t p, int32_t rows, int32_t row_block) {
  const int32_t n = num_panels(rows, row_block);
  const int32_t first = static_cast<int32_t>(static_cast<int64_t>(p) * rows / n);
  const int32_t last = static_cast<int32_t>(static_cast<int64_t>(p + 1) * rows / n);
  return {first, last - first};
}
// The panel that a row is in.
constexpr Panel panel_of(int32_t row, int32_t rows, int32_t row_block) {
  const int64_t n = num_panels(rows, row_block);
  return panel(static_cast<int32_t>(((row + 1) * n - 1) / rows), rows, row_block);
}

}  // namespace octavo
