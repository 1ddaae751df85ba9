// Fills tiles of a packed matrix from a row-major GGUF tensor (layout: packed.h). Sixteen rows are
// walked block by block side by side: sixteen read streams, one write stream.
#include "formats/pack.h"

#include <cstring>
#include <vector>

#include "formats/gguf_blocks.h"
#include "formats/half.h"
#include "formats/packed.h"

namespace octavo {
namespace {

using namespace gguf;

// The source rows behind one tile; null for rows past the end of the matrix, which read as zeros.
struct TileRows {
  const std::byte* rows[kTileColumns];

  template <typename Block>
  const Block& block(int row, int64_t index) const {
    static constexpr Block kZero{};
    return rows[row] ? reinterpret_cast<const Block*>(rows[row])[index] : kZero;
  }
};

TileRows tile_rows(const PackedMatrix& out, const std::byte* source, const int32_t* row_order,
                   int64_t row_bytes, int64_t tile) {
  TileRows result;
  for (int i = 0; i < kTileColumns; ++i) {
    const int64_t row = tile * kTileColumns + i;
    const bool exists = row < out.rows;
    result.rows[i] = exists ? source + (row_order ? row_order[row] : row) * row_bytes : nullptr;
  }
  return result;
}

uint32_t load_quad(const uint8_t* codes, int quad) {
  uint32_t four;
  std::memcpy(&four, codes + 4 * quad, 4);
  return four;
}
void store_quad(std::byte* lines, int line, int row, uint32_t four) {
  std::memcpy(lines + line * kLineBytes + 4 * row, &four, 4);
}

// One row's codes of one group, [32], into the group's lines.
template <int kBits>
void store_codes(const uint8_t* codes, int row, std::byte* lines) {
  if constexpr (kBits == 8) {
    for (int q = 0; q < 8; ++q) store_quad(lines, q, row, load_quad(codes, q));
    return;
  }
  constexpr uint32_t kLow = 0x0f0f0f0f;
  constexpr int kNibbleLine = kBits - 4;
  for (int j = 0; j < 4; ++j) {
    const uint32_t low = load_quad(codes, j) & kLow, high = load_quad(codes, j + 4) & kLow;
    store_quad(lines, kNibbleLine + j, row, low | (high << 4));
  }
  if constexpr (kBits == 5) {
    uint32_t bits = 0;
    for (int q = 0; q < 8; ++q) bits |= ((load_quad(codes, q) >> 4) & 0x01010101) << q;
    store_quad(lines, 0, row, bits);
  }
  if constexpr (kBits == 6) {
    for (int h = 0; h < 2; ++h) {
      uint32_t pairs = 0;
      for (int j = 0; j < 4; ++j) {
        pairs |= ((load_quad(codes, 4 * h + j) >> 4) & 0x03030303) << (2 * j);
      }
      store_quad(lines, h, row, pairs);
    }
  }
}

void store_half(std::byte* scales, int entry, int row, Half h) {
  std::memcpy(scales + (entry * kTileColumns + row) * 2, h.bytes, 2);
}

// `part` is the place of a 32-value source block within the packed block.
template <typename Block>
void store_plain_scale(const Block& b, int part, int row, std::byte* scales) {
  store_half(scales, part, row, b.d);
}
void store_scales(const Q4_0& b, int part, int row, std::byte* s) {
  store_plain_scale(b, part, row, s);
}
void store_scales(const Q5_0& b, int part, int row, std::byte* s) {
  store_plain_scale(b, part, row, s);
}
void store_scales(const Q8_0& b, int part, int row, std::byte* s) {
  store_plain_scale(b, part, row, s);
}
template <typename Block>
void store_scale_and_minimum(const Block& b, int row, std::byte* scales) {
  store_half(scales, 0, row, b.d);
  store_half(scales, 1, row, b.m);
}
void store_scales(const Q4_1& b, int, int row, std::byte* s) { store_scale_and_minimum(b, row, s); }
void store_scales(const Q5_1& b, int, int row, std::byte* s) { store_scale_and_minimum(b, row, s); }
template <typename SuperBlock>  // Q4_K or Q5_K
void store_scales(const SuperBlock& b, int, int row, std::byte* scales) {
  uint8_t sc[8], mn[8];
  read_super_scales(b.scales, sc, mn);
  store_half(scales, 0, row, b.d);
  store_half(scales, 1, row, b.dmin);
  std::byte* bytes = scales + 4 * kTileColumns + row;
  for (int g = 0; g < 8; ++g) {
    bytes[g * kTileColumns] = std::byte{sc[g]};
    bytes[(8 + g) * kTileColumns] = std::byte{mn[g]};
  }
}
void store_scales(const Q6_K& b, int, int row, std::byte* scales) {
  store_half(scales, 0, row, b.d);
  std::byte* bytes = scales + 2 * kTileColumns + row;
  for (int g = 0; g < 16; ++g) bytes[g * kTileColumns] = static_cast<std::byte>(b.scales[g]);
}

template <typename Block, WeightFormat kFormat>
void pack_tile(const TileRows& rows, int64_t columns, std::byte* tile) {
  constexpr BlockLayout kLayout = block_layout(kFormat);
  constexpr int kGroupsPerSource = Block::kValues / kGroup;
  constexpr int kParts = kLayout.groups / kGroupsPerSource;  // source blocks per packed block
  const int64_t source_blocks = columns / Block::kValues;
  for (int64_t i = 0; i < source_blocks; ++i) {
    std::byte* block = tile + i / kParts * kLayout.bytes();
    const int part = static_cast<int>(i % kParts);
    for (int row = 0; row < kTileColumns; ++row) {
      const Block& source = rows.block<Block>(row, i);
      uint8_t codes[Block::kValues];
      read_codes(source, codes);
      for (int g = 0; g < kGroupsPerSource; ++g) {
        std::byte* lines =
            block + kLayout.code_offset() + (part * kGroupsPerSource + g) * kLayout.code_bytes();
        store_codes<kLayout.bits>(codes + kGroup * g, row, lines);
      }
      store_scales(source, part, row, block);
    }
  }
}

// --- plain numbers ---

// Units of sixteen rows side by side: single numbers, or pairs of BF16. A line of each row at a
// time, since sixteen streams of single units are slower than the memory.
template <typename Unit>
void transpose_tile(const TileRows& rows, int64_t row_bytes, std::byte* tile) {
  constexpr int64_t kUnits = kLineBytes / sizeof(Unit);
  Unit lines[kTileColumns][kUnits] = {};  // rows past the end of the matrix stay 0
  for (int64_t first = 0; first < row_bytes; first += kLineBytes, tile += 16 * kLineBytes) {
    const int64_t rest = row_bytes - first;
    if (rest < kLineBytes) std::memset(lines, 0, sizeof(lines));
    for (int row = 0; row < kTileColumns; ++row) {
      if (!rows.rows[row]) continue;
      if (rest >= kLineBytes) {
        std::memcpy(lines[row], rows.rows[row] + first, kLineBytes);
      } else {
        std::memcpy(lines[row], rows.rows[row] + first, static_cast<size_t>(rest));
      }
    }
    const int64_t whole = (rest + static_cast<int64_t>(sizeof(Unit)) - 1) / sizeof(Unit);
    const int64_t units = whole < kUnits ? whole : kUnits;
    Unit* const out = reinterpret_cast<Unit*>(tile);
    for (int64_t i = 0; i < units; ++i) {
      for (int row = 0; row < kTileColumns; ++row) out[i * kTileColumns + row] = lines[row][i];
    }
  }
}

// Rows that have the type they are packed as.
void pack_rows(WeightFormat format, const TileRows& rows, int64_t columns, std::byte* tile) {
  switch (format) {
    case WeightFormat::kF32:
      return transpose_tile<uint32_t>(rows, 4 * columns, tile);
    case WeightFormat::kF16:
      return transpose_tile<uint16_t>(rows, 2 * columns, tile);
    case WeightFormat::kBF16:
      return transpose_tile<uint32_t>(rows, 2 * columns, tile);
    case WeightFormat::kQ4_0:
      return pack_tile<Q4_0, WeightFormat::kQ4_0>(rows, columns, tile);
    case WeightFormat::kQ4_1:
      return pack_tile<Q4_1, WeightFormat::kQ4_1>(rows, columns, tile);
    case WeightFormat::kQ5_0:
      return pack_tile<Q5_0, WeightFormat::kQ5_0>(rows, columns, tile);
    case WeightFormat::kQ5_1:
      return pack_tile<Q5_1, WeightFormat::kQ5_1>(rows, columns, tile);
    case WeightFormat::kQ8_0:
      return pack_tile<Q8_0, WeightFormat::kQ8_0>(rows, columns, tile);
    case WeightFormat::kQ4_K:
      return pack_tile<Q4_K, WeightFormat::kQ4_K>(rows, columns, tile);
    case WeightFormat::kQ5_K:
      return pack_tile<Q5_K, WeightFormat::kQ5_K>(rows, columns, tile);
    case WeightFormat::kQ6_K:
      return pack_tile<Q6_K, WeightFormat::kQ6_K>(rows, columns, tile);
  }
}

// Rows are dequantised and rounded to the target's type, and packed as if the file had held that.
void convert_tile(WeightFormat type, const TileRows& rows, RoundRow round, const PackedMatrix& out,
                  std::byte* tile) {
  // A line more, so that rows of a power of two do not all fall into one cache set.
  const int64_t row_bytes =
      out.columns / block_values(out.format) * block_bytes(out.format) + kLineBytes;
  std::vector<float> values(static_cast<size_t>(out.columns));
  std::vector<std::byte> blocks(static_cast<size_t>(kTileColumns * row_bytes));
  TileRows rounded{};
  for (int row = 0; row < kTileColumns; ++row) {
    if (!rows.rows[row]) continue;
    std::byte* const blocks_of_row = blocks.data() + row * row_bytes;
    dequantize(type, rows.rows[row], out.columns, values.data());
    round(out.format, values.data(), out.columns, blocks_of_row);
    rounded.rows[row] = blocks_of_row;
  }
  pack_rows(out.format, rounded, out.columns, tile);
}

}  // namespace

void pack_tiles(WeightFormat source_type, const std::byte* source, const int32_t* row_order,
                RoundRow round, const PackedMatrix& out, int64_t first_tile, int64_t last_tile) {
  const int64_t row_bytes = out.columns / block_values(source_type) * block_bytes(source_type);
  for (int64_t t = first_tile; t < last_tile; ++t) {
    const TileRows rows = tile_rows(out, source, row_order, row_bytes, t);
    std::byte* tile = const_cast<std::byte*>(out.data) + t * out.tile_bytes;
    if (out.format == source_type) {
      pack_rows(out.format, rows, out.columns, tile);
    } else {
      convert_tile(source_type, rows, round, out, tile);
    }
  }
}

}  // namespace octavo
