// How many activation rows the matrix kernels of this level hold in registers. Knows nothing else.
#pragma once

namespace octavo::OCTAVO_LEVEL {

#if defined(OCTAVO_LEVEL_avx512) || defined(OCTAVO_LEVEL_avx512_vnni)
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

}  // namespace octavo::OCTAVO_LEVEL
