// Rounds one row of floats to the int8 activation layout of formats/activation.h: symmetric, one
// scale per group of 32. Knows nothing of operands or workers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "formats/activation.h"
#include "kernels/int8_scale.h"
#include "simd/vec.h"

namespace octavo::OCTAVO_LEVEL {

// One group's place in a panel of `rows` rows; `group` is its first byte.
struct GroupSlots {
  std::byte* group;
  int rows;

  int8_t* quad(int q, int row) const {
    return reinterpret_cast<int8_t*>(group) + (q * rows + row) * 4;
  }
  float* scale(int row) const { return reinterpret_cast<float*>(group + kGroup * rows) + row; }
  float* sum(int row) const { return scale(row) + rows; }
  int16_t* half_sums(int row) const {
    return reinterpret_cast<int16_t*>(group + (kGroup + 8) * rows) + 2 * row;
  }
};

// x: kGroup floats. scale = max|x| / 127, values = round-to-nearest-even(x * (127 / max|x|)).
OCTAVO_INLINE void quantize_group(const float* x, GroupSlots out, int row) {
  const F32x16 low = load(x), high = load(x + 16);
  const Int8Scale group = int8_scale(max(magnitude_bits(low), magnitude_bits(high)));
  const I32x16 low_codes = group.codes(low), high_codes = group.codes(high);
  alignas(64) int8_t values[kGroup];
  store_i8(values, low_codes);
  store_i8(values + 16, high_codes);
  const int32_t low_sum = reduce_sum(low_codes), high_sum = reduce_sum(high_codes);
  for (int q = 0; q < kGroup / 4; ++q) std::memcpy(out.quad(q, row), values + 4 * q, 4);
  *out.scale(row) = group.scale;
  *out.sum(row) = group.scale * static_cast<float>(low_sum + high_sum);
  out.half_sums(row)[0] = static_cast<int16_t>(low_sum);
  out.half_sums(row)[1] = static_cast<int16_t>(high_sum);
}

// x: [columns] floats, columns a multiple of kGroup, written as row `row_in_panel` of a panel of
// `panel_rows` rows that begins at `panel`.
inline void quantize_row(const float* x, int64_t columns, std::byte* panel, int panel_rows,
                         int row_in_panel) {
  const int64_t group_stride = static_cast<int64_t>(kGroupRowBytes) * panel_rows;
  for (int64_t column = 0; column < columns; column += kGroup, panel += group_stride) {
    quantize_group(x + column, {panel, panel_rows}, row_in_panel);
  }
}

}  // namespace octavo::OCTAVO_LEVEL
