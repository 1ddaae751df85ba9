// Rounds one row of floats to the int8 activation layout of formats/activation.h: symmetric, one
// scale per group of 32. Knows nothing of operands or workers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "formats/activation.h"
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
  constexpr int32_t kTiniest = 0x0d800000;   // 2^-100: below it, 127 / max|x| may overflow
  constexpr int32_t kInfinity = 0x7f800000;  // as bits, NaN and infinity are the largest magnitudes
  const F32x16 low = load(x), high = load(x + 16);
  const int32_t max_bits = reduce_max(max(f32_bits(abs(low)), f32_bits(abs(high))));
  float amax, scale = 0.0f, inverse = 0.0f;
  std::memcpy(&amax, &max_bits, 4);
  alignas(64) int8_t values[kGroup] = {};
  int32_t low_sum = 0, high_sum = 0;
  if (max_bits >= kInfinity) {
    scale = __builtin_nanf("");
  } else if (max_bits >= kTiniest) {
    scale = amax / 127.0f;
    inverse = 127.0f / amax;
    const I32x16 low_codes = to_i32(low * splat(inverse));
    const I32x16 high_codes = to_i32(high * splat(inverse));
    store_i8(values, low_codes);
    store_i8(values + 16, high_codes);
    low_sum = reduce_sum(low_codes);
    high_sum = reduce_sum(high_codes);
  }
  for (int q = 0; q < kGroup / 4; ++q) std::memcpy(out.quad(q, row), values + 4 * q, 4);
  *out.scale(row) = scale;
  *out.sum(row) = scale * static_cast<float>(low_sum + high_sum);
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
