// Tile products of the integer formats. Per group: exact int32 sums over the quads, then one float
// step with the group's scale (and minimum). Rows are innermost, so that their sums are independent
// chains; with kRowBlock rows everything stays in registers.
#pragma once

#include <utility>

#include "formats/activation.h"
#include "formats/packed.h"
#include "kernels/tile_product.h"
#include "simd/dot.h"

namespace octavo::OCTAVO_LEVEL {

// kNumRows rows, from row kFirstRow, of one group of a panel of R rows.
template <int R, int kFirstRow = 0, int kNumRows = R>
struct PanelGroup {
  static constexpr int kRows = kNumRows;
  static constexpr int kBytes = kGroupRowBytes * R;
  const std::byte* data;

  OCTAVO_INLINE const std::byte* quad(int q, int row) const { return word(q, row); }
  OCTAVO_INLINE F32x16 scale(int row) const { return real(kGroup / 4, row); }
  OCTAVO_INLINE F32x16 sum(int row) const { return real(kGroup / 4 + 1, row); }
  // Minus the sum of the activations of the group, or of one of its halves.
  template <bool kFirst, bool kLast>
  OCTAVO_INLINE I32x16 minus_sum(int row) const {
    constexpr int kField = kGroup / 4 + 2;
    if constexpr (kFirst && kLast) return integer(kField, row) + integer(kField + 1, row);
    return integer(kFirst ? kField : kField + 1, row);
  }

 private:
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

// The codes of quad q, from a group's lines.
template <int kBits, int q>
OCTAVO_INLINE U8x64 quad_codes(const std::byte* lines) {
  if constexpr (kBits == 8) return load_line(lines + q * kLineBytes);
  const U8x64 line = load_line(lines + (kBits - 4 + q % 4) * kLineBytes);
  const U8x64 code = q < 4 ? low_nibbles(line) : high_nibbles(line);
  if constexpr (kBits == 5) {
    return with_upper_bits<q - 4, 0x10>(code, load_line(lines));
  } else if constexpr (kBits == 6) {
    return with_upper_bits<q % 4 * 2 - 4, 0x30>(code, load_line(lines + q / 4 * kLineBytes));
  } else {
    return code;
  }
}

// Which quads of a group share a weight scale.
enum class Span { kWhole, kFirstHalf, kLastHalf };

constexpr int num_quads(Span span) { return span == Span::kWhole ? 8 : 4; }
// The i-th quad of a span; in a whole group the two nibbles of a line one after the other.
constexpr int quad_at(Span span, int i) {
  return span == Span::kWhole ? i % 2 * 4 + i / 2 : span == Span::kFirstHalf ? i : i + 4;
}

#if defined(OCTAVO_SHORT_SUMS)
template <int kBits, class Rows, int... q>
OCTAVO_INLINE void add_quads(const std::byte* lines, Rows a, I32x16 (&sums)[Rows::kRows]) {
  ShortSums shorts[Rows::kRows];
#pragma GCC unroll 16
  for (int r = 0; r < Rows::kRows; ++r) shorts[r] = zero_shorts();
  const auto add_quad = [&](U8x64 codes, int quad) {
#pragma GCC unroll 16
    for (int r = 0; r < Rows::kRows; ++r)
      shorts[r] = add_products<kBits>(shorts[r], codes, a.quad(quad, r));
  };
  (add_quad(quad_codes<kBits, q>(lines), q), ...);
#pragma GCC unroll 16
  for (int r = 0; r < Rows::kRows; ++r) sums[r] = add_shorts(sums[r], shorts[r]);
}
#else
template <int kBits, class Rows, int... q>
OCTAVO_INLINE void add_quads(const std::byte* lines, Rows a, I32x16 (&sums)[Rows::kRows]) {
  const auto add_quad = [&](U8x64 codes, int quad) {
#pragma GCC unroll 16
    for (int r = 0; r < Rows::kRows; ++r) sums[r] = dot<kBits>(sums[r], codes, a.quad(quad, r));
  };
  (add_quad(quad_codes<kBits, q>(lines), q), ...);
}
#endif

// The quads of a span from the kFrom-th on, as many at once as int16 sums hold.
template <int kBits, Span kSpan, int kFrom, class Rows, int... i>
OCTAVO_INLINE void add_span(std::integer_sequence<int, i...> next, const std::byte* lines, Rows a,
                            I32x16 (&sums)[Rows::kRows]) {
  add_quads<kBits, Rows, quad_at(kSpan, kFrom + i)...>(lines, a, sums);
  constexpr int kNext = kFrom + static_cast<int>(sizeof...(i));
  if constexpr (kNext < num_quads(kSpan)) add_span<kBits, kSpan, kNext>(next, lines, a, sums);
}

// sums[r] = sum over the span of (code - zero_point) * activation.
template <int kBits, int kZeroPoint, Span kSpan, class Rows>
OCTAVO_INLINE void integer_sums(const std::byte* lines, Rows a, I32x16 (&sums)[Rows::kRows]) {
  constexpr int kZero = kZeroPoint - kDotZeroPoint<kBits>;
  constexpr bool kFirst = kSpan != Span::kLastHalf, kLast = kSpan != Span::kFirstHalf;
#pragma GCC unroll 16
  for (int r = 0; r < Rows::kRows; ++r) {
    if constexpr (kZero == 0) {
      sums[r] = zero_i32();
    } else {  // a shift takes no time from the dot products, as one more product would
      sums[r] = shift_left<__builtin_ctz(kZero)>(a.template minus_sum<kFirst, kLast>(r));
    }
  }
  constexpr int kAtOnce = kDotQuads<kBits> < num_quads(kSpan) ? kDotQuads<kBits> : num_quads(kSpan);
  add_span<kBits, kSpan, 0>(std::make_integer_sequence<int, kAtOnce>(), lines, a, sums);
}

template <int kBits, int kZeroPoint, Span kSpan, class Rows>
OCTAVO_INLINE void add_scaled(const std::byte* lines, Rows a, F32x16 scale, F32x16* acc) {
  I32x16 sums[Rows::kRows];
  integer_sums<kBits, kZeroPoint, kSpan>(lines, a, sums);
#pragma GCC unroll 16
  for (int r = 0; r < Rows::kRows; ++r) acc[r] = fma(to_f32(sums[r]), scale * a.scale(r), acc[r]);
}

// As add_scaled, for a group with a scale for each half.
template <int kBits, int kZeroPoint, class Rows>
OCTAVO_INLINE void add_scaled_halves(const std::byte* lines, Rows a, F32x16 first_scale,
                                     F32x16 last_scale, F32x16* acc) {
  I32x16 sums[Rows::kRows];
  F32x16 weighted[Rows::kRows];
  integer_sums<kBits, kZeroPoint, Span::kFirstHalf>(lines, a, sums);
#pragma GCC unroll 16
  for (int r = 0; r < Rows::kRows; ++r) weighted[r] = to_f32(sums[r]) * first_scale;
  integer_sums<kBits, kZeroPoint, Span::kLastHalf>(lines, a, sums);
#pragma GCC unroll 16
  for (int r = 0; r < Rows::kRows; ++r) {
    acc[r] = fma(fma(to_f32(sums[r]), last_scale, weighted[r]), a.scale(r), acc[r]);
  }
}

template <int R>
OCTAVO_INLINE void add_minimum(PanelGroup<R> a, F32x16 minimum, F32x16 (&acc)[R]) {
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) acc[r] = fma(minimum, a.sum(r), acc[r]);
}

OCTAVO_INLINE F32x16 load_halves(const std::byte* scales, int entry) {
  return load_f16(reinterpret_cast<const uint16_t*>(scales) + entry * kTileColumns);
}

// Groups [0, count) of one block.
template <WeightFormat kFormat, int R>
OCTAVO_INLINE void add_block(const std::byte* block, int count, PanelGroup<R> a, int64_t ahead,
                             F32x16 (&acc)[R]) {
  constexpr BlockLayout kLayout = block_layout(kFormat);
  constexpr int kBits = kLayout.bits, kZero = kLayout.zero_point;
  const std::byte* scales = block;
  const std::byte* lines = block + kLayout.code_offset();
  for (int g = 0; g < count; ++g, lines += kLayout.code_bytes(), a.data += a.kBytes) {
    if constexpr (R > 1) {  // one row reads one stream, faster (1.2 x for Q4_K) without
      for (int i = 0; i < kLayout.code_bytes(); i += kLineBytes) {
        __builtin_prefetch(lines + ahead + i);
      }
    }
    if constexpr (kLayout.scales == ScaleKind::kPlain) {
      add_scaled<kBits, kZero, Span::kWhole>(lines, a, load_halves(scales, g), acc);
    } else if constexpr (kLayout.scales == ScaleKind::kMinimum) {
      add_scaled<kBits, kZero, Span::kWhole>(lines, a, load_halves(scales, 0), acc);
      add_minimum(a, load_halves(scales, 1), acc);
    } else if constexpr (kLayout.scales == ScaleKind::kSuperMinimum) {
      const uint8_t* bytes = reinterpret_cast<const uint8_t*>(scales) + (4 + g) * kTileColumns;
      const F32x16 scale = load_halves(scales, 0) * to_f32(load_u8(bytes));
      const F32x16 minimum =
          load_halves(scales, 1) * to_f32(load_u8(bytes + kLayout.groups * kTileColumns));
      add_scaled<kBits, kZero, Span::kWhole>(lines, a, scale, acc);
      add_minimum(a, zero_f32() - minimum, acc);
    } else {
      constexpr int kFew = R > 8 ? R / 2 : R;  // three vectors per row: more would not fit
      const int8_t* bytes = reinterpret_cast<const int8_t*>(scales) + (2 + 2 * g) * kTileColumns;
      const F32x16 d = load_halves(scales, 0);
      const F32x16 first = d * to_f32(load_i8(bytes)), last = d * to_f32(load_i8(bytes + 16));
      add_scaled_halves<kBits, kZero>(lines, PanelGroup<R, 0, kFew>{a.data}, first, last, acc);
      if constexpr (kFew < R) {
        add_scaled_halves<kBits, kZero>(lines, PanelGroup<R, kFew, R - kFew>{a.data}, first, last,
                                        acc + kFew);
      }
    }
  }
}

template <WeightFormat kFormat, int R>
void integer_tile_product(const std::byte* tile, ActivationRows activations, int64_t columns,
                          int64_t ahead, float* out) {
  constexpr BlockLayout kLayout = block_layout(kFormat);
  F32x16 acc[R];
  for (int r = 0; r < R; ++r) acc[r] = zero_f32();
  PanelGroup<R> a{activations.data};
  int64_t groups = columns / kGroup;
  for (; groups >= kLayout.groups; groups -= kLayout.groups) {
    add_block<kFormat, R>(tile, kLayout.groups, a, ahead, acc);
    tile += kLayout.bytes();
    a.data += kLayout.groups * a.kBytes;
  }
  if (kLayout.groups > 1 && groups > 0) {
    add_block<kFormat, R>(tile, static_cast<int>(groups), a, ahead, acc);
  }
  for (int r = 0; r < R; ++r) store(out + r * kTileColumns, acc[r]);
}

}  // namespace octavo::OCTAVO_LEVEL
