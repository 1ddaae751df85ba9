// One level's probes of the machine. The int8 one is the product of groups that the matrix kernels
// use for many rows, of 4-bit codes, so its rate is the ceiling of those.
#include "octavo/machine_probe.h"

#include <cstring>

#include "kernels/kernels.h"
#include "simd/bf16.h"
#include "simd/dot.h"
#include "simd/tile_registers.h"
#include "simd/vec.h"

namespace octavo::OCTAVO_LEVEL {

namespace {

[[maybe_unused]] constexpr int kBits = 4;
[[maybe_unused]] constexpr int kQuads = 8;  // of a group
// Enough chains to hide the latency of an instruction, few enough to stay in registers.
#if defined(OCTAVO_AVX512)
constexpr int kChains = 12;
#else
constexpr int kChains = 4;
#endif

// The compiler must take memory for changed, and so can move nothing out of the loop.
OCTAVO_INLINE void forget_memory() { asm volatile("" : : : "memory"); }

int32_t read(const std::byte* data, int64_t bytes) {
  constexpr int kWords = static_cast<int>(kProbeReadBytes / 4);
  // The order of adding is free for unsigned numbers: the compiler keeps one vector per kLanes.
  uint32_t sums[kWords] = {};
  for (int64_t at = 0; at < bytes; at += kProbeReadBytes) {
    uint32_t words[kWords];
    std::memcpy(words, data + at, kProbeReadBytes);
    for (int i = 0; i < kWords; ++i) sums[i] += words[i];
  }
  uint32_t sum = 0;
  for (const uint32_t s : sums) sum += s;
  return static_cast<int32_t>(sum);
}

#if defined(OCTAVO_LEVEL_amx)

// Of whole tiles, four sums in turn: int8 of a group's depth, bfloat16 of a whole row.
constexpr int64_t kInt8Operations = int64_t{2} * 4 * kMaxTileRows * kTileColumns * kGroup;
constexpr int64_t kBf16Operations =
    int64_t{2} * 4 * kMaxTileRows * kTileColumns * kTileRowBytes / 2;

// `rounds` rounds of `step`, products of tiles 4 and 5 with 6 and 7, whose rows have small integers
// or tiny bfloat16 in `depth_bytes` bytes.
template <class Step>
OCTAVO_INLINE int32_t tile_rounds(int64_t rounds, int depth_bytes, Step step) {
  alignas(64) std::byte bytes[kMaxTileRows * kTileRowBytes];
  for (size_t i = 0; i < sizeof(bytes); ++i) bytes[i] = static_cast<std::byte>(i % 16);
  TileRegisters registers;
  registers.shape(kMaxTileRows, depth_bytes);
  tile_load<4>(bytes, depth_bytes);
  tile_load<5>(bytes, depth_bytes);
  tile_load<6>(bytes, kTileRowBytes);
  tile_load<7>(bytes, kTileRowBytes);
  for (int64_t round = 0; round < rounds; ++round) step();
  tile_store<0>(bytes);
  return static_cast<int32_t>(bytes[0]);
}

float dot_bf16_pairs(int64_t rounds) {
  return static_cast<float>(tile_rounds(rounds, kTileRowBytes, [] {
    tile_dot_bf16<0, 4, 6>();
    tile_dot_bf16<1, 5, 7>();
    tile_dot_bf16<2, 4, 6>();
    tile_dot_bf16<3, 5, 7>();
  }));
}

int32_t dot_int8(int64_t rounds) {
  return tile_rounds(rounds, kGroup, [] {
    tile_dot_int8<0, 4, 6>();
    tile_dot_int8<1, 5, 7>();
    tile_dot_int8<2, 4, 6>();
    tile_dot_int8<3, 5, 7>();
  });
}

#else

constexpr int64_t kInt8Operations = int64_t{2} * kChains * kQuads * 4 * kLanes;

// acc[column] += the sum over a group's quads, all with the same codes.
OCTAVO_INLINE I32x16 dot_group(I32x16 acc, U8x64 codes, const std::byte* quads) {
#if defined(OCTAVO_SHORT_SUMS)
  static_assert(dot_quads<kBits, 0>() == kQuads);
  ShortSums sums = products<kBits>(codes, quads);
  for (int q = 1; q < kQuads; ++q) sums = add_products<kBits>(sums, codes, quads + 4 * q);
  return add_widened(acc, sums);
#else
  for (int q = 0; q < kQuads; ++q) acc = dot<kBits>(acc, codes, quads + 4 * q);
  return acc;
#endif
}

int32_t dot_int8(int64_t rounds) {
  alignas(64) std::byte bytes[64];
  for (int i = 0; i < 64; ++i) bytes[i] = static_cast<std::byte>(i % 16);
  forget_memory();
  const U8x64 codes = load_line(bytes);
  I32x16 sums[kChains] = {};
  for (int64_t round = 0; round < rounds; ++round) {
    for (int i = 0; i < kChains; ++i) {
      forget_memory();  // or products would be computed once for all chains
      sums[i] = dot_group(sums[i], codes, bytes);
    }
  }
  int32_t words[kChains * kLanes];
  std::memcpy(words, sums, sizeof(sums));
  uint32_t sum = 0;
  for (const int32_t word : words) sum += static_cast<uint32_t>(word);
  return static_cast<int32_t>(sum);
}

#endif

// `rounds` rounds of `step` on each of kChains sums.
template <class Step>
OCTAVO_INLINE float chains_of(int64_t rounds, Step step) {
  // Chains that begin alike would be computed once.
  float starts[kChains];
  for (int i = 0; i < kChains; ++i) starts[i] = static_cast<float>(i);
  keep_in_memory(starts);
  F32x16 sums[kChains];
  for (int i = 0; i < kChains; ++i) sums[i] = splat(starts[i]);
  for (int64_t round = 0; round < rounds; ++round) {
    for (int i = 0; i < kChains; ++i) sums[i] = step(sums[i]);
  }
  float words[kChains * kLanes];
  std::memcpy(words, sums, sizeof(sums));
  float sum = 0;
  for (const float word : words) sum += word;
  return sum;
}

float multiply_add_f32(int64_t rounds) {
  const F32x16 x = splat(0.5F), y = splat(1.0F);
  return chains_of(rounds, [=](F32x16 sum) { return fma(sum, x, y); });
}

#if !defined(OCTAVO_LEVEL_amx)
constexpr int64_t kBf16Operations = int64_t{2} * kChains * kLanes * 2;
#if defined(OCTAVO_LEVEL_avx512_bf16)
float dot_bf16_pairs(int64_t rounds) {
  const float ones[] = {1.0F};
  std::byte pair[4];
  std::memcpy(pair, ones, sizeof(pair));  // 0 and 1 in bfloat16
  const I32x16 line = zero_i32();
  return chains_of(rounds, [&](F32x16 sum) { return dot_bf16(sum, line, pair); });
}
#else
constexpr float (*dot_bf16_pairs)(int64_t) = nullptr;
#endif
#endif

}  // namespace

const MachineProbe& machine_probe() {
  static constexpr int64_t kF32Operations = int64_t{2} * kChains * kLanes;
  static constexpr MachineProbe kProbe{read,           dot_int8,        multiply_add_f32,
                                       dot_bf16_pairs, kInt8Operations, kF32Operations,
                                       kBf16Operations};
  return kProbe;
}

}  // namespace octavo::OCTAVO_LEVEL
