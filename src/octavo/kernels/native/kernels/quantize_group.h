// Rounds one group of columns of a panel's rows to the int8 activation layout of
// formats/activation.h: symmetric, one scale per row. Knows nothing of operands or workers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "formats/activation.h"
#include "kernels/code_scale.h"
#include "kernels/row_block.h"
#include "simd/dot.h"
#include "simd/vec.h"

namespace octavo::OCTAVO_LEVEL {

// One group's place in a panel of `rows` rows; `group` is its first byte.
struct GroupSlots {
  std::byte* group;
  int rows;

  int8_t* quad(int q, int row) const {
    return reinterpret_cast<int8_t*>(group) + quad_offset(q, row, rows);
  }
  float* scale(int row) const { return reinterpret_cast<float*>(group + kGroup * rows) + row; }
  float* sum(int row) const { return scale(row) + rows; }
  // minus_first, or minus_all on a level of pair sums.
  int32_t* minus_sum(int row) const {
    return reinterpret_cast<int32_t*>(group + (kGroup + 8) * rows) + row;
  }
  int32_t* minus_last(int row) const { return minus_sum(row) + rows; }
};

// What the products with weight codes need of a row's codes, which are also in `values`.
OCTAVO_INLINE void store_sums([[maybe_unused]] const int8_t* values,
                              [[maybe_unused]] I32x16 low_codes, [[maybe_unused]] I32x16 high_codes,
                              float scale, GroupSlots out, int row) {
#if defined(OCTAVO_PAIR_SUMS)
  const PairSums minus = minus_pair_sums(values);
  *out.sum(row) =
      scale * static_cast<float>(-(static_cast<int16_t>(minus.all) + (minus.all >> 16)));
  *out.minus_sum(row) = minus.all;
  *out.minus_last(row) = minus.last;
#else
  // Both sums in one reduction; neither leaves 16 bits.
  const int32_t sums = reduce_sum(low_codes + shift_left<16>(high_codes));
  const auto low_sum = static_cast<int16_t>(sums);
  const auto high_sum = static_cast<int16_t>((sums - low_sum) >> 16);
  *out.sum(row) = scale * static_cast<float>(low_sum + high_sum);
  *out.minus_sum(row) = -low_sum;
  *out.minus_last(row) = -high_sum;
#endif
}

// x: kGroup floats. scale = max|x| / 127, values = round-to-nearest-even(x * (127 / max|x|)).
OCTAVO_INLINE void quantize_group_row(const float* x, GroupSlots out, int row) {
  const F32x16 low = load(x), high = load(x + 16);
  const CodeScale group = int8_scale(max(magnitude_bits(low), magnitude_bits(high)));
  const I32x16 low_codes = group.codes(low), high_codes = group.codes(high);
  alignas(64) int8_t values[kGroup];
  store_i8(values, low_codes);
  store_i8(values + 16, high_codes);
  for (int q = 0; q < kGroup / 4; ++q) std::memcpy(out.quad(q, row), values + 4 * q, 4);
  *out.scale(row) = group.scale;
  store_sums(values, low_codes, high_codes, group.scale, out, row);
}

// x: [rows][kGroup] floats, rows `stride` floats apart.
inline void quantize_group(const float* x, int64_t stride, GroupSlots out) {
  for (int row = 0; row < out.rows; ++row) quantize_group_row(x + row * stride, out, row);
}

// Where the group that begins at `column` lies in a panel.
inline GroupSlots group_slots(std::byte* panel, int64_t column, int panel_rows) {
  return {panel + column / kGroup * kGroupRowBytes * panel_rows, panel_rows};
}

}  // namespace octavo::OCTAVO_LEVEL
