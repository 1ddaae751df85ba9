// Tile products by the tile registers of AMX: of unpacked integer tiles with many rows, and of BF16
// tiles with any number. The registers have the shape of the rows and of register_depth_bytes
// already. Integer sums and the steps with their scales are those of kernels/integer_tile.h, so
// that a row's result is the same whether vectors computed it or registers. Knows nothing of who
// unpacks.
#pragma once

#include <cstring>
#include <type_traits>

#include "formats/packed.h"
#include "kernels/integer_tile.h"
#include "kernels/unpacked_tile.h"
#include "simd/tile_registers.h"

namespace octavo::OCTAVO_LEVEL {

// From so many rows on registers are faster than vectors: one row fewer takes them no less time to
// unpack a tile and to load it. An estimate from instruction counts (docs/instruction_sets.md).
inline constexpr int kFewestRegisterRows = 8;

// Whether packed tiles of the format are multiplied by registers, whatever the number of rows.
constexpr bool takes_registers(WeightFormat format) {
  return kHasTiles && format == WeightFormat::kBF16;
}

// Bytes of a row that one product takes: a group, half of one where halves have scales of their
// own, or a line of bfloat16.
constexpr int register_depth_bytes(WeightFormat format) {
  if (is_float(format)) return kLineBytes;
  return block_layout(format).scales == ScaleKind::kSuperHalves ? kGroup / 2 : kGroup;
}

#if defined(OCTAVO_LEVEL_amx)

using RegisterSums = int32_t[kMaxTileRows * kTileColumns];

// The integer sums of a group, or of half of one, of all rows.
template <int kSums>
OCTAVO_INLINE void register_sums(const std::byte* rows, const std::byte* lines,
                                 RegisterSums& sums) {
  tile_zero<kSums>();
  tile_load<4 + kSums % 2>(rows, kGroup);
  tile_load<6 + kSums % 2>(lines, kLineBytes);
  tile_dot_int8<kSums, 4 + kSums % 2, 6 + kSums % 2>();
  tile_store<kSums>(sums);
}

// The sums of a group, or of both its halves, in register kRegister and the one behind it: other
// ones than those of the group before.
template <WeightFormat kFormat, int kRegister>
OCTAVO_INLINE void group_sums(const std::byte* rows, const std::byte* lines,
                              RegisterSums (&sums)[2]) {
  register_sums<kRegister>(rows, lines, sums[0]);
  if constexpr (block_layout(kFormat).scales == ScaleKind::kSuperHalves) {
    register_sums<kRegister + 1>(rows + kGroup / 2, lines + kGroup / 8 * kLineBytes, sums[1]);
  }
}

OCTAVO_INLINE F32x16 row_sums(const RegisterSums& sums, int row) {
  return to_f32(load_i32(sums + row * kTileColumns));
}

// The float step of one group.
template <WeightFormat kFormat, int R>
OCTAVO_INLINE void add_register_group(const std::byte* group, PanelGroup<R> a,
                                      const RegisterSums (&sums)[2], F32x16 (&acc)[R]) {
  constexpr ScaleKind kScales = block_layout(kFormat).scales;
  const F32x16 first = load(unpacked_entry(group, 0));
  if constexpr (kScales == ScaleKind::kSuperHalves) {
    add_half_sums(
        a, load(unpacked_entry(group, 1)), acc, [&](int r) { return row_sums(sums[0], r) * first; },
        [&](int r) { return row_sums(sums[1], r); });
  } else {
    add_sums(a, first, acc, [&](int r) { return row_sums(sums[0], r); });
    if constexpr (kScales != ScaleKind::kPlain) add_minimum(a, load(unpacked_entry(group, 1)), acc);
  }
}

// Registers multiply a group while vectors add the one before: a product's sums take about 100
// cycles until they are in memory.
template <WeightFormat kFormat, int R>
void register_tile_product(const std::byte* groups, ActivationRows activations, int64_t columns,
                           const std::byte* next, float* out) {
  constexpr BlockLayout kLayout = block_layout(kFormat);
  constexpr int64_t kNextBytes = kLayout.bytes() / kLayout.groups;
  constexpr int64_t kGroupBytes = unpacked_group_bytes(kFormat);
  alignas(64) RegisterSums sums[2][2];
  F32x16 acc[R];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) acc[r] = zero_f32();
  PanelGroup<R> a{activations.data};
  const int64_t count = columns / kGroup;
  group_sums<kFormat, 0>(a.data, groups, sums[0]);
  const auto step = [&](int64_t g, auto odd) __attribute__((always_inline)) {
    for (int64_t i = 0; i < kNextBytes; i += kLineBytes) __builtin_prefetch(next + i);
    next += kNextBytes;
    if (g + 1 < count) {
      group_sums<kFormat, odd ? 0 : 2>(a.data + a.kBytes, groups + kGroupBytes, sums[!odd]);
    }
    add_register_group<kFormat>(groups, a, sums[odd], acc);
    a.data += a.kBytes;
    groups += kGroupBytes;
  };
  int64_t g = 0;
  for (; g + 2 <= count; g += 2) {
    step(g, std::false_type());
    step(g + 1, std::true_type());
  }
  if (g < count) step(g, std::false_type());
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) store(out + r * kTileColumns, acc[r]);
}

// Null for fewer rows than are ever multiplied so.
template <WeightFormat kFormat, int R>
constexpr UnpackedProduct register_product_of_rows() {
  if constexpr (R < kFewestRegisterRows) return nullptr;
  if constexpr (R >= kFewestRegisterRows) return register_tile_product<kFormat, R>;
}

// Adds the products of a line of each row, 32 k's, to one of four tiles of sums.
template <int kSums>
OCTAVO_INLINE void add_bf16_line(const std::byte* rows, const std::byte* weights) {
  tile_load<4 + kSums % 2>(rows, kLineBytes);
  tile_load<6 + kSums % 2>(weights, kLineBytes);
  tile_dot_bf16<kSums, 4 + kSums % 2, 6 + kSums % 2>();
}
OCTAVO_INLINE void add_bf16_line(int64_t sums, const std::byte* rows, const std::byte* weights) {
  switch (sums) {
    case 0:
      return add_bf16_line<0>(rows, weights);
    case 1:
      return add_bf16_line<1>(rows, weights);
    case 2:
      return add_bf16_line<2>(rows, weights);
    default:
      return add_bf16_line<3>(rows, weights);
  }
}

// Lines are summed in four tiles in turn, for one sum would wait for itself (a product takes 52
// cycles, the next may begin after 16); then (tile 0 + tile 1) + (tile 2 + tile 3).
template <int R>
void register_bf16_product(const std::byte* tile, ActivationRows activations, int64_t columns,
                           int64_t ahead, float* out) {
  constexpr int64_t kPairs = kLineBytes / 4, kTileBytes = kPairs * kLineBytes;
  const std::byte* rows = activations.data;
  tile_zero<0>();
  tile_zero<1>();
  tile_zero<2>();
  tile_zero<3>();
  int64_t pairs = (columns + 1) / 2, line = 0;
  for (; pairs >= kPairs; pairs -= kPairs, ++line, tile += kTileBytes, rows += R * kLineBytes) {
    for (int64_t i = 0; i < kTileBytes; i += kLineBytes) __builtin_prefetch(tile + ahead + i);
    add_bf16_line(line % 4, rows, tile);
  }
  if (pairs > 0) {  // the registers take whole lines; behind the tile may be anything
    alignas(64) std::byte last[kTileBytes] = {};
    std::memcpy(last, tile, static_cast<size_t>(pairs * kLineBytes));
    add_bf16_line(line % 4, rows, last);
  }
  alignas(64) float sums[4][kMaxTileRows * kTileColumns];
  tile_store<0>(sums[0]);
  tile_store<1>(sums[1]);
  tile_store<2>(sums[2]);
  tile_store<3>(sums[3]);
  for (int i = 0; i < R * kTileColumns; i += kTileColumns) {
    store(out + i,
          (load(sums[0] + i) + load(sums[1] + i)) + (load(sums[2] + i) + load(sums[3] + i)));
  }
}

#endif

}  // namespace octavo::OCTAVO_LEVEL
