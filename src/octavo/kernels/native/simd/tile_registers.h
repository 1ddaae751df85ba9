// The tile registers of AMX and their products of int8 and of bfloat16, as the kernels use them:
// sums in tiles 0 to 3, activations in 4 and 5, weights in 6 and 7. Knows no layout of weights.
//
// A product adds to a tile of sums [rows][16 columns] the product of a tile of activations
// [rows][depth bytes] and one of weights [depth / 4 quads][16 columns][4 bytes] (Intel SDM volume
// 1, chapter 18). Written as text, because the compiler's functions do not tell that a load reads
// memory, so that what was stored for it may come later or not at all.
#pragma once

#include <cstddef>
#include <cstdint>

#include "simd/vec.h"

namespace octavo::OCTAVO_LEVEL {

#if defined(OCTAVO_LEVEL_amx)

inline constexpr bool kHasTiles = true;
inline constexpr int kMaxTileRows = 16;
inline constexpr int64_t kTileRowBytes = 64;

// The shape of the registers during one kernel call of one worker. They are given back at its end:
// the system saves them at each switch as long as they are in use.
class TileRegisters {
 public:
  TileRegisters() = default;
  TileRegisters(const TileRegisters&) = delete;
  TileRegisters& operator=(const TileRegisters&) = delete;
  ~TileRegisters() {
    if (rows_ != 0) asm volatile("tilerelease" ::: "memory");
  }

  // `rows` (1..16) of activations, `depth_bytes` (at most 64, a multiple of 4) of each. What the
  // registers hold is lost when this changes.
  void shape(int rows, int depth_bytes) {
    if (rows == rows_ && depth_bytes == depth_bytes_) return;
    rows_ = rows;
    depth_bytes_ = depth_bytes;
    alignas(64) Config config{};
    config.palette = 1;
    for (int tile = 0; tile < 8; ++tile) {
      const bool weights = tile >= 6;
      config.rows[tile] = static_cast<uint8_t>(weights ? depth_bytes / 4 : rows);
      const bool activations = tile == 4 || tile == 5;
      config.row_bytes[tile] = static_cast<uint16_t>(activations ? depth_bytes : kTileRowBytes);
    }
    asm volatile("ldtilecfg %0" ::"m"(config) : "memory");
  }

 private:
  struct Config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
  };
  static_assert(sizeof(Config) == 64);

  int rows_ = 0, depth_bytes_ = 0;
};

template <int kTile>
OCTAVO_INLINE void tile_zero() {
  asm volatile("tilezero %%tmm%c0" ::"i"(kTile));
}
template <int kTile>
OCTAVO_INLINE void tile_load(const std::byte* first_row, int64_t stride) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(first_row), "r"(stride), "i"(kTile)
               : "memory");
}
template <int kTile>
OCTAVO_INLINE void tile_store(void* first_row) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(first_row), "r"(kTileRowBytes), "i"(kTile)
               : "memory");
}
// Exact sums of products of signed bytes.
template <int kSums, int kActivations, int kWeights>
OCTAVO_INLINE void tile_dot_int8() {
  asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSums), "i"(kActivations),
               "i"(kWeights));
}
// Exact products of bfloat16; those of even and of odd k's are summed apart, then added, each sum
// rounded to nearest, subnormals taken as 0, whatever the processor's mode.
template <int kSums, int kActivations, int kWeights>
OCTAVO_INLINE void tile_dot_bf16() {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSums), "i"(kActivations),
               "i"(kWeights));
}

#else

inline constexpr bool kHasTiles = false;

class TileRegisters {
 public:
  void shape(int /*rows*/, int /*depth_bytes*/) {}
};

#endif

}  // namespace octavo::OCTAVO_LEVEL
