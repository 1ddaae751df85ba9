// One group of a panel of int8 activations (formats/activation.h), as the tile products read it.
// Knows nothing of weights.
#pragma once

#include <cstddef>
#include <cstdint>

#include "formats/activation.h"
#include "kernels/row_block.h"
#include "simd/dot.h"
#include "simd/vec.h"

namespace octavo::OCTAVO_LEVEL {

// Which quads of a group share a weight scale.
enum class Span { kWhole, kFirstHalf, kLastHalf };

constexpr int num_quads(Span span) { return span == Span::kWhole ? 8 : 4; }
// The i-th quad of a span; in a whole group the two nibbles of a line one after the other.
constexpr int quad_at(Span span, int i) {
  return span == Span::kWhole ? i % 2 * 4 + i / 2 : span == Span::kFirstHalf ? i : i + 4;
}

// kNumRows rows, from row kFirstRow, of one group of a panel of R rows.
template <int R, int kFirstRow = 0, int kNumRows = R>
struct PanelGroup {
  static constexpr int kRows = kNumRows;
  static constexpr int kBytes = kGroupRowBytes * R;
  const std::byte* data;

  OCTAVO_INLINE const std::byte* quad(int q, int row) const {
    return data + quad_offset(q, kFirstRow + row, R);
  }
  OCTAVO_INLINE F32x16 scale(int row) const { return real(kGroup / 4, row); }
  OCTAVO_INLINE F32x16 sum(int row) const { return real(kGroup / 4 + 1, row); }
  // Minus the sum of the activations of the group, or of one of its halves.
  template <Span kSpan>
  OCTAVO_INLINE I32x16 minus_sum(int row) const {
    if constexpr (kSpan == Span::kWhole) return integer(kSums, row) + integer(kSums + 1, row);
    return integer(kSpan == Span::kFirstHalf ? kSums : kSums + 1, row);
  }
#if defined(OCTAVO_PAIR_SUMS)
  // The same as sums of pairs, where int16 sums of products begin.
  template <Span kSpan>
  OCTAVO_INLINE ShortSums minus_pairs(int row) const {
    const ShortSums all = splat_shorts(word(kSums, row));
    if constexpr (kSpan == Span::kWhole) return all;
    const ShortSums last = splat_shorts(word(kSums + 1, row));
    return kSpan == Span::kLastHalf ? last : all - last;
  }
#endif

 private:
  static constexpr int kSums = kGroup / 4 + 2;  // the first of the last two fields
  OCTAVO_INLINE const std::byte* word(int w, int row) const {
    return data + (w * R + kFirstRow + row) * 4;
  }
  OCTAVO_INLINE F32x16 real(int w, int row) const {
    return splat(*reinterpret_cast<const float*>(word(w, row)));
  }
  OCTAVO_INLINE I32x16 integer(int w, int row) const {
    return splat_i32(*reinterpret_cast<const int32_t*>(word(w, row)));
  }
};

}  // namespace octavo::OCTAVO_LEVEL
