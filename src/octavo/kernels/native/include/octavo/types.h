// Plain data shared by all of the native core: element types, row kinds, packed weights, page
// layout. Knows nothing of Python, of threads, or of any instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

namespace octavo {

// Columns (output features) that stand side by side in one tile of a packed matrix, and tokens in
// one page: both fill one 512-bit register of 32-bit lanes.
inline constexpr int kTileColumns = 16;
inline constexpr int kPageTokens = 16;
// Input features that share one activation scale.
inline constexpr int kGroup = 32;
// Attention is summed in pieces of this many context tokens, cut at multiples of it, and the pieces
// are merged in ascending order. Fixed, so that a row's sum has one order whatever the batching.
inline constexpr int kAttentionPiece = 256;

enum class DType : uint8_t {
  kF32 = 0,
  kF16 = 1,
  kBF16 = 2,
  // int8 activations in groups of kGroup, in row panels; layout in formats/activation.h.
  kQ8 = 3,
  // int8 or int16 keys and values with one float scale per token and head. In pages only.
  kI8 = 4,
  kI16 = 5,
};
constexpr int element_bytes(DType t) {
  return t == DType::kF32 ? 4 : t == DType::kQ8 || t == DType::kI8 ? 1 : 2;
}
// Whether pages of this type hold codes that the token's scale makes numbers of.
constexpr bool has_scales(DType t) { return t == DType::kI8 || t == DType::kI16; }

// What a value's rows count. A step has one number of each kind.
enum class RowKind : uint8_t { kTokens = 0, kSequences = 1, kLogits = 2 };
inline constexpr int kNumRowKinds = 3;

// How a packed matrix holds its numbers. Names are the GGUF types they keep without loss; F32, F16
// and BF16 hold plain numbers. Layouts are documented in formats/packed.h.
enum class WeightFormat : uint8_t {
  kF32 = 0,
  kF16,
  kBF16,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,
  kQ4_K,
  kQ5_K,
  kQ6_K,
};

// A weight matrix [rows = output features N, columns = input features K] in tiles of kTileColumns
// output features, ready for the kernels. N is padded with zeros to a whole tile.
struct PackedMatrix {
  WeightFormat format;
  int64_t rows;           // N, without padding
  int64_t columns;        // K
  int64_t num_tiles;      // ceil(N / kTileColumns)
  int64_t tile_bytes;     // distance between tiles, a multiple of 64
  const std::byte* data;  // 64-byte aligned
};

// Bytes of one head's keys, or values, in a page: the elements and, of integers, one float scale
// for each token behind them, by which its elements are to be multiplied. A multiple of 64.
constexpr int64_t page_half_bytes(DType t, int64_t head_dim) {
  const int64_t scale_bytes = has_scales(t) ? 4 : 0;
  return (head_dim * element_bytes(t) + scale_bytes) * kPageTokens;
}

// The key/value pages of one layer, which lie as far apart as its neighbours in other groups want
// them to. Page p, head h, with half = page_half_bytes(dtype, head_dim):
//   keys   at data + p * page_bytes + h * 2 * half           as [head_dim][kPageTokens]
//   values at data + p * page_bytes + h * 2 * half + half    as [kPageTokens][head_dim]
// Integers stand in the pairs that an instruction multiplies and adds at once: keys as
// [head_dim / 2][kPageTokens][2 columns], values as [kPageTokens / 2][head_dim][2 tokens], each
// followed by its scales [kPageTokens]. kI8 keys have gone through the Hadamard transform of
// kernels/hadamard.h.
struct KvLayer {
  DType dtype;  // kF32, kF16, kBF16, kI8 or kI16
  int32_t num_kv_heads;
  int32_t head_dim;
  int32_t group;  // the layers of a group share page tables, see StepView
  int64_t num_pages;
  int64_t page_bytes;
  std::byte* data;
};

}  // namespace octavo
