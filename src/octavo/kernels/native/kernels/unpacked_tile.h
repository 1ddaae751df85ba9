// Tiles of integer formats with their codes as bytes and their scales as floats: tile registers
// take nothing else, and where many panels meet a tile, unpacking it once saves vector kernels a
// tenth to a quarter of the instructions of each. Sums are those of kernels/integer_tile.h, in the
// same order. Knows nothing of who keeps the tiles where.
//
// A group is 8 lines of codes, line q being quad q, and behind them entries [16], one per column:
// float scale and, where the format has one, minimum; of halves with scales of their own both
// scales or, on a level of pair sums, float d and, as two equal int16, both scales. For tile
// registers the codes are signed, their zero points subtracted.
#pragma once

#include "formats/packed.h"
#include "kernels/integer_tile.h"
#include "kernels/tile_product.h"
#include "simd/tile_registers.h"

namespace octavo::OCTAVO_LEVEL {

// Whether a tile gains by being unpacked. Where vectors have a dot product in one instruction, this
// has not been measured; without it codes of 8 bits are no bytes that int16 sums take.
constexpr bool is_unpacked(WeightFormat format) {
  if (is_float(format)) return false;
  return kHasTiles || (kPairSums && block_layout(format).bits < 8);
}
inline constexpr bool kUnpacksTiles = kHasTiles || kPairSums;

constexpr int unpacked_group_bytes(WeightFormat format) {
  const ScaleKind scales = block_layout(format).scales;
  const int entries = scales == ScaleKind::kPlain ? 1 : scales == ScaleKind::kSuperHalves ? 3 : 2;
  return (kGroup / 4 + entries) * kLineBytes;
}

// Of any format.
inline constexpr int kMaxUnpackedGroupBytes = (kGroup / 4 + 3) * kLineBytes;

#if defined(OCTAVO_PAIR_SUMS) || defined(OCTAVO_LEVEL_amx)

OCTAVO_INLINE float* unpacked_entry(std::byte* group, int entry) {
  return reinterpret_cast<float*>(group + (kGroup / 4 + entry) * kLineBytes);
}
OCTAVO_INLINE const float* unpacked_entry(const std::byte* group, int entry) {
  return unpacked_entry(const_cast<std::byte*>(group), entry);
}

template <class Codes, int... q>
OCTAVO_INLINE void unpack_codes(std::integer_sequence<int, q...>, const std::byte* lines,
                                std::byte* out) {
  const auto store_quad = [out](int quad, U8x64 codes) {
    if constexpr (kHasTiles && Codes::kZeroPoint != 0) codes = less<Codes::kZeroPoint>(codes);
    store_line(out + quad * kLineBytes, codes);
  };
  (store_quad(q, Codes::template quad<q>(lines)), ...);
}

template <WeightFormat kFormat>
OCTAVO_INLINE void unpack_scales(const std::byte* scales, int g, std::byte* group) {
  constexpr ScaleKind kScales = block_layout(kFormat).scales;
  if constexpr (kScales == ScaleKind::kSuperHalves) {
    const HalfScales halves = half_scales(scales, g);
#if defined(OCTAVO_PAIR_SUMS)
    store(unpacked_entry(group, 0), halves.both);
    store_shorts(unpacked_entry(group, 1), halves.first);
    store_shorts(unpacked_entry(group, 2), halves.last);
#else
    store(unpacked_entry(group, 0), halves.first);
    store(unpacked_entry(group, 1), halves.last);
#endif
  } else {
    store(unpacked_entry(group, 0), group_scale<kFormat>(scales, g));
    if constexpr (kScales != ScaleKind::kPlain) {
      store(unpacked_entry(group, 1), group_minimum<kFormat>(scales, g));
    }
  }
}

template <WeightFormat kFormat>
void unpack(const std::byte* tile, int64_t columns, std::byte* out) {
  constexpr BlockLayout kLayout = block_layout(kFormat);
  constexpr auto kQuads = std::make_integer_sequence<int, kGroup / 4>();
  for (int64_t group = 0; group < columns / kGroup; ++group) {
    const std::byte* block = tile + group / kLayout.groups * kLayout.bytes();
    const int g = static_cast<int>(group % kLayout.groups);
    const std::byte* lines = block + kLayout.code_offset() + g * kLayout.code_bytes();
    unpack_codes<Codes<kLayout.bits, kLayout.zero_point>>(kQuads, lines, out);
    unpack_scales<kFormat>(block, g, out);
    out += unpacked_group_bytes(kFormat);
  }
}

#endif

#if defined(OCTAVO_PAIR_SUMS)

template <WeightFormat kFormat, int R>
void unpacked_tile_product(const std::byte* groups, ActivationRows activations, int64_t columns,
                           const std::byte* next, float* out) {
  constexpr BlockLayout kLayout = block_layout(kFormat);
  constexpr int64_t kNextBytes = kLayout.bytes() / kLayout.groups;
  using Bytes = Codes<kLayout.bits, kLayout.zero_point, true>;
  F32x16 acc[R];
  for (int r = 0; r < R; ++r) acc[r] = zero_f32();
  PanelGroup<R> a{activations.data};
  for (int64_t g = 0; g < columns / kGroup; ++g, a.data += a.kBytes, next += kNextBytes) {
    for (int64_t i = 0; i < kNextBytes; i += kLineBytes) __builtin_prefetch(next + i);
    if constexpr (kLayout.scales == ScaleKind::kSuperHalves) {
      const HalfScales scales{load(unpacked_entry(groups, 0)),
                              load_shorts(unpacked_entry(groups, 1)),
                              load_shorts(unpacked_entry(groups, 2))};
      add_scaled_halves<Bytes>(groups, a, scales, acc);
    } else {
      add_scaled<Bytes>(groups, a, load(unpacked_entry(groups, 0)), acc);
      if constexpr (kLayout.scales != ScaleKind::kPlain) {
        add_minimum(a, load(unpacked_entry(groups, 1)), acc);
      }
    }
    groups += unpacked_group_bytes(kFormat);
  }
  for (int r = 0; r < R; ++r) store(out + r * kTileColumns, acc[r]);
}

#endif

}  // namespace octavo::OCTAVO_LEVEL
