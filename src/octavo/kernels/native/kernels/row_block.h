// How activation rows lie in the panels of this level: how many, and where a row's quads are. Knows
// nothing else.
#pragma once

#include "octavo/types.h"

namespace octavo::OCTAVO_LEVEL {

#if defined(OCTAVO_LEVEL_amx)
// The rows of a tile register. Too many for the vector kernels' registers, which multiply few rows.
inline constexpr int kRowBlock = 16;
#elif defined(OCTAVO_LEVEL_avx512) || defined(OCTAVO_LEVEL_avx512_vnni)
// 12 integer and 12 float accumulators, the weights and their scales fill the 32 registers.
inline constexpr int kRowBlock = 12;
#elif defined(OCTAVO_LEVEL_avx2) || defined(OCTAVO_LEVEL_avx2_vnni)
// The integer sums take 12 of the 16 registers; the float ones wait in memory until a group ends.
inline constexpr int kRowBlock = 6;
#elif defined(OCTAVO_LEVEL_neon_dotprod)
// 16 of 32 registers; not yet measured on a processor.
inline constexpr int kRowBlock = 4;
#else
inline constexpr int kRowBlock = 2;
#endif

// Where quad q of a row begins in a group of a panel of int8 rows (formats/activation.h): vector
// kernels take a quad of one row after the other, a tile register takes whole rows.
constexpr int quad_offset(int q, int row, [[maybe_unused]] int rows) {
#if defined(OCTAVO_LEVEL_amx)
  return row * kGroup + q * 4;
#else
  return (q * rows + row) * 4;
#endif
}

}  // namespace octavo::OCTAVO_LEVEL
