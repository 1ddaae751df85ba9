// How many rows the matrix kernels of this level hold in registers.
#pragma once

namespace octavo::OCTAVO_LEVEL {

#if defined(OCTAVO_LEVEL_avx512) || defined(OCTAVO_LEVEL_avx512_vnni)
inline constexpr int kRowBlock = 12;
#else
inline constexpr int kRowBlock = 4;
#endif

}  // namespace octavo::OCTAVO_LEVEL
