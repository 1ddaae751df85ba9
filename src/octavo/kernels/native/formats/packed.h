// The packed layout of a weight matrix: where a tile of 16 output features keeps its codes and
// scales. Shared by the packer and the kernels; knows neither GGUF's own layout nor arithmetic.
//
// A matrix is a sequence of tiles, a tile a sequence of blocks along K, so that a kernel that walks
// tiles in order reads one stream, and within it meets everything in the order of use: a line
// needed before its turn waits for memory. A block of an integer format holds
//   scales  [scale_bytes, padded to 64]
//   codes   [groups][code_bytes]         groups of 32 k's x 16 rows, unsigned
// The codes of a group come in lines of 64 bytes; quad q = the k's 4q..4q+3, and byte 4 * row + i
// of a line belongs to k = 4q + i:
//   4 bits  4 lines; line j holds quad j in the low nibbles and quad j + 4 in the high ones
//   5 bits  one line of fifth bits (bit q of a byte belongs to quad q), then as 4 bits
//   6 bits  two lines of upper pairs (line h, bits 2j and 2j + 1: quad 4h + j), then as 4 bits
//   8 bits  8 lines, line q is quad q
// Scales of a block, each entry [16], one per row:
//   Q4_0 Q5_0 Q8_0   2 groups   fp16 d[2]                      w = d * (code - zero_point)
//   Q4_1 Q5_1        1 group    fp16 d, m                      w = d * code + m
//   Q4_K Q5_K        8 groups   fp16 d, dmin; u8 sc[8], mn[8]  w = d * sc * code - dmin * mn
//   Q6_K             8 groups   fp16 d; int8 sc[16]            w = d * sc * (code - 32), sc per 16
//   k's
// Every number is the file's own, so nothing is lost. When K has an odd number of groups the last
// block of a two-group format is half zeros.
// F32 and F16 tiles are [K][16] numbers, BF16 tiles [K / 2][16][2] (the pairs that the processor's
// dot product takes); K is padded with zeros to an even number.
#pragma once

#include <cstdint>

#include "octavo/types.h"

namespace octavo {

inline constexpr int kLineBytes = 64;

enum class ScaleKind : uint8_t { kPlain, kMinimum, kSuperMinimum, kSuperHalves };

struct BlockLayout {
  int bits;        // of a code
  int zero_point;  // subtracted from a code, 0 for formats with a minimum
  int groups;      // of kGroup input features
  ScaleKind scales;

  constexpr int code_bytes() const { return bits * kGroup * kTileColumns / 8; }
  // Lines of a group before the nibbles.
  constexpr int upper_lines() const { return bits == 8 ? 0 : bits - 4; }
  constexpr int scale_bytes() const {
    switch (scales) {
      case ScaleKind::kPlain:
        return 2 * groups * kTileColumns;
      case ScaleKind::kMinimum:
        return 4 * groups * kTileColumns;
      case ScaleKind::kSuperMinimum:
        return (4 + 2 * groups) * kTileColumns;
      case ScaleKind::kSuperHalves:
        return (2 + 2 * groups) * kTileColumns;
    }
    return 0;
  }
  constexpr int code_offset() const {
    return (scale_bytes() + kLineBytes - 1) / kLineBytes * kLineBytes;
  }
  constexpr int bytes() const { return code_offset() + groups * code_bytes(); }
};

constexpr bool is_float(WeightFormat f) { return f <= WeightFormat::kBF16; }

// Which number of its float tile holds column k of row `row`.
constexpr int64_t float_index(WeightFormat f, int64_t k, int row) {
  return f == WeightFormat::kBF16 ? (k / 2 * kTileColumns + row) * 2 + k % 2
                                  : k * kTileColumns + row;
}

// Of an integer format.
constexpr BlockLayout block_layout(WeightFormat f) {
  switch (f) {
    case WeightFormat::kQ4_0:
      return {4, 8, 2, ScaleKind::kPlain};
    case WeightFormat::kQ4_1:
      return {4, 0, 1, ScaleKind::kMinimum};
    case WeightFormat::kQ5_0:
      return {5, 16, 2, ScaleKind::kPlain};
    case WeightFormat::kQ5_1:
      return {5, 0, 1, ScaleKind::kMinimum};
    case WeightFormat::kQ8_0:
      return {8, 128, 2, ScaleKind::kPlain};
    case WeightFormat::kQ4_K:
      return {4, 0, 8, ScaleKind::kSuperMinimum};
    case WeightFormat::kQ5_K:
      return {5, 0, 8, ScaleKind::kSuperMinimum};
    case WeightFormat::kQ6_K:
      return {6, 32, 8, ScaleKind::kSuperHalves};
    default:
      return {};
  }
}

}  // namespace octavo
