// Reads one row back out of a packed matrix (layout: packed.h), as the kernels see it.
#include <cstring>

#include "formats/half.h"
#include "formats/pack.h"
#include "formats/packed.h"

namespace octavo {
namespace {

// The codes of one lane (row of the tile) in one group, [32] in the order of k.
void read_group(const BlockLayout& layout, const std::byte* lines, int lane, uint8_t* codes) {
  const uint8_t* upper = reinterpret_cast<const uint8_t*>(lines) + 4 * lane;
  const uint8_t* bytes = upper + layout.upper_lines() * kLineBytes;
  for (int k = 0; k < kGroup; ++k) {
    const int q = k / 4, i = k % 4;
    if (layout.bits == 8) {
      codes[k] = bytes[q * kLineBytes + i];
      continue;
    }
    uint32_t code = (bytes[q % 4 * kLineBytes + i] >> (q / 4 * 4)) & 15;
    if (layout.bits == 5) code |= ((upper[i] >> q) & 1u) << 4;
    if (layout.bits == 6) {
      code |= ((upper[q / 4 * kLineBytes + i] >> (q % 4 * 2)) & 3u) << 4;
    }
    codes[k] = static_cast<uint8_t>(code);
  }
}

// Entries of a block's scale region: `entry` counts vectors of 16 of its type.
struct Scales {
  const std::byte* region;
  int lane;

  float half(int entry) const {
    uint16_t h;
    std::memcpy(&h, region + (entry * kTileColumns + lane) * 2, 2);
    return f16_to_f32(h);
  }
  uint8_t byte(int halves_before, int entry) const {
    return static_cast<uint8_t>(region[(2 * halves_before + entry) * kTileColumns + lane]);
  }
};

// value = scale * (code - zero_point) + minimum, the scale of the k's first or last half group.
struct Affine {
  float scale[2];
  float minimum;
};

Affine group_affine(const BlockLayout& layout, const Scales& s, int group) {
  switch (layout.scales) {
    case ScaleKind::kPlain:
      return {{s.half(group), s.half(group)}, 0};
    case ScaleKind::kMinimum:
      return {{s.half(0), s.half(0)}, s.half(1)};
    case ScaleKind::kSuperMinimum: {
      const float scale = s.half(0) * s.byte(2, group);
      return {{scale, scale}, -(s.half(1) * s.byte(2, layout.groups + group))};
    }
    case ScaleKind::kSuperHalves: {
      const float d = s.half(0);
      return {{d * static_cast<int8_t>(s.byte(1, 2 * group)),
               d * static_cast<int8_t>(s.byte(1, 2 * group + 1))},
              0};
    }
  }
  return {};
}

void unpack_integers(const PackedMatrix& m, const std::byte* tile, int lane, float* out) {
  const BlockLayout layout = block_layout(m.format);
  for (int64_t g = 0; g < m.columns / kGroup; ++g, out += kGroup) {
    const std::byte* block = tile + g / layout.groups * layout.bytes();
    const int part = static_cast<int>(g % layout.groups);
    uint8_t codes[kGroup];
    read_group(layout, block + layout.code_offset() + part * layout.code_bytes(), lane, codes);
    const Affine a = group_affine(layout, {block, lane}, part);
    for (int k = 0; k < kGroup; ++k) {
      const float product = a.scale[k / 16] * static_cast<float>(codes[k] - layout.zero_point);
      out[k] = layout.zero_point != 0 ? product : product + a.minimum;
    }
  }
}

}  // namespace

void unpack_row(const PackedMatrix& matrix, int64_t row, float* out) {
  const std::byte* tile = matrix.data + row / kTileColumns * matrix.tile_bytes;
  const int lane = static_cast<int>(row % kTileColumns);
  if (!is_float(matrix.format)) return unpack_integers(matrix, tile, lane, out);
  const bool wide = matrix.format == WeightFormat::kF32;
  for (int64_t k = 0; k < matrix.columns; ++k) {
    const std::byte* number = tile + float_index(matrix.format, k, lane) * (wide ? 4 : 2);
    if (wide) {
      std::memcpy(out + k, number, 4);
      continue;
    }
    uint16_t h;
    std::memcpy(&h, number, 2);
    out[k] = matrix.format == WeightFormat::kF16 ? f16_to_f32(h) : bf16_to_f32(h);
  }
}

}  // namespace octavo
