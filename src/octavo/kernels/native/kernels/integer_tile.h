// Tile products of the integer formats. Per group: exact int32 sums over the quads, then one float
// step with the group's scale (and minimum). Rows are innermost, so that their sums are independent
// chains; with kRowBlock rows everything stays in registers.
#pragma once

#include <utility>

#include "formats/packed.h"
#include "kernels/panel_group.h"
#include "kernels/tile_product.h"
#include "simd/dot.h"

namespace octavo::OCTAVO_LEVEL {

// How the codes of a group are kept, and what is subtracted from each. Bytes: every quad has a line
// of its own (kernels/unpacked_tile.h); otherwise as in formats/packed.h.
template <int kCodeBits, int kCodeZeroPoint, bool kAsBytes = false>
struct Codes {
  static constexpr int kBits = kCodeBits;
  static constexpr int kZeroPoint = kCodeZeroPoint;
  // What is left to be subtracted from the codes that are multiplied.
  static constexpr int kZero = kZeroPoint - kDotZeroPoint<kBits>;
  static constexpr int kAtOnce = dot_quads<kBits, kZeroPoint>();

  // The codes of quad q, from a group's lines.
  template <int q>
  static OCTAVO_INLINE U8x64 quad(const std::byte* lines) {
    if constexpr (kAsBytes || kBits == 8) return load_line(lines + q * kLineBytes);
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
};

#if defined(OCTAVO_SHORT_SUMS)
template <class Codes, class Rows, int... q>
OCTAVO_INLINE void add_short_quads(const std::byte* lines, Rows a,
                                   ShortSums (&shorts)[Rows::kRows]) {
  const auto add_quad = [&](U8x64 codes, int quad) {
#pragma GCC unroll 16
    for (int r = 0; r < Rows::kRows; ++r)
      shorts[r] = add_products<Codes::kBits>(shorts[r], codes, a.quad(quad, r));
  };
  (add_quad(Codes::template quad<q>(lines), q), ...);
}
template <class Codes, bool kBegins, class Rows, int kFirst, int... q>
OCTAVO_INLINE void add_quads(const std::byte* lines, Rows a, I32x16 (&sums)[Rows::kRows]) {
  const U8x64 codes = Codes::template quad<kFirst>(lines);
  const auto first = [&](int r) { return products<Codes::kBits>(codes, a.quad(kFirst, r)); };
  const auto add = [&](int r, ShortSums shorts) {
    sums[r] = kBegins ? widen(shorts) : add_widened(sums[r], shorts);
  };
  if constexpr (sizeof...(q) == 0) {
#pragma GCC unroll 16
    for (int r = 0; r < Rows::kRows; ++r) add(r, first(r));
  } else {
    ShortSums shorts[Rows::kRows];
#pragma GCC unroll 16
    for (int r = 0; r < Rows::kRows; ++r) shorts[r] = first(r);
    add_short_quads<Codes, Rows, q...>(lines, a, shorts);
#pragma GCC unroll 16
    for (int r = 0; r < Rows::kRows; ++r) add(r, shorts[r]);
  }
}
#else
template <class Codes, bool kBegins, class Rows, int... q>
OCTAVO_INLINE void add_quads(const std::byte* lines, Rows a, I32x16 (&sums)[Rows::kRows]) {
  const auto add_quad = [&](U8x64 codes, int quad) {
#pragma GCC unroll 16
    for (int r = 0; r < Rows::kRows; ++r) {
      sums[r] = dot<Codes::kBits>(sums[r], codes, a.quad(quad, r));
    }
  };
  (add_quad(Codes::template quad<q>(lines), q), ...);
}
#endif

#if defined(OCTAVO_PAIR_SUMS)
// shorts[r] = sums over the span of (code - zero_point) * activation.
template <class Codes, Span kSpan, class Rows, int... i>
OCTAVO_INLINE void short_sums(std::integer_sequence<int, i...>, const std::byte* lines, Rows a,
                              ShortSums (&shorts)[Rows::kRows]) {
  static_assert(sizeof...(i) == num_quads(kSpan) && sizeof...(i) <= Codes::kAtOnce);
#pragma GCC unroll 16
  for (int r = 0; r < Rows::kRows; ++r) {
    shorts[r] = shift_left<__builtin_ctz(Codes::kZero)>(a.template minus_pairs<kSpan>(r));
  }
  add_short_quads<Codes, Rows, quad_at(kSpan, i)...>(lines, a, shorts);
}
#endif

// The quads of a span from the kFrom-th on, as many at once as int16 sums hold. With those sums,
// what begins at zero is not added to it.
template <class Codes, Span kSpan, int kFrom, class Rows, int... i>
OCTAVO_INLINE void add_span(std::integer_sequence<int, i...> next, const std::byte* lines, Rows a,
                            I32x16 (&sums)[Rows::kRows]) {
  add_quads<Codes, kFrom == 0 && Codes::kZero == 0, Rows, quad_at(kSpan, kFrom + i)...>(lines, a,
                                                                                        sums);
  constexpr int kNext = kFrom + static_cast<int>(sizeof...(i));
  if constexpr (kNext < num_quads(kSpan)) add_span<Codes, kSpan, kNext>(next, lines, a, sums);
}

// sums[r] = sum over the span of (code - zero_point) * activation.
template <class Codes, Span kSpan, class Rows>
OCTAVO_INLINE void integer_sums(const std::byte* lines, Rows a, I32x16 (&sums)[Rows::kRows]) {
#if defined(OCTAVO_PAIR_SUMS)
  if constexpr (Codes::kZero != 0) {
    ShortSums shorts[Rows::kRows];
    short_sums<Codes, kSpan>(std::make_integer_sequence<int, num_quads(kSpan)>(), lines, a, shorts);
#pragma GCC unroll 16
    for (int r = 0; r < Rows::kRows; ++r) sums[r] = widen(shorts[r]);
    return;
  }
#endif
#pragma GCC unroll 16
  for (int r = 0; r < Rows::kRows; ++r) {
    if constexpr (Codes::kZero == 0) {
      sums[r] = zero_i32();
    } else {  // a shift takes no time from the dot products, as one more product would
      sums[r] = shift_left<__builtin_ctz(Codes::kZero)>(a.template minus_sum<kSpan>(r));
    }
  }
  constexpr int kAtOnce = Codes::kAtOnce < num_quads(kSpan) ? Codes::kAtOnce : num_quads(kSpan);
  add_span<Codes, kSpan, 0>(std::make_integer_sequence<int, kAtOnce>(), lines, a, sums);
}

// The float step of a group with one scale. sums(r): row r's integer sums, as floats.
template <class Rows, class Sums>
OCTAVO_INLINE void add_sums(Rows a, F32x16 scale, F32x16* acc, Sums sums) {
#pragma GCC unroll 16
  for (int r = 0; r < Rows::kRows; ++r) acc[r] = fma(sums(r), scale * a.scale(r), acc[r]);
}

template <class Codes, class Rows>
OCTAVO_INLINE void add_scaled(const std::byte* lines, Rows a, F32x16 scale, F32x16* acc) {
  I32x16 sums[Rows::kRows];
  integer_sums<Codes, Span::kWhole>(lines, a, sums);
  add_sums(a, scale, acc, [&](int r) { return to_f32(sums[r]); });
}

// As add_scaled, for a group with a scale for each half.
#if defined(OCTAVO_PAIR_SUMS)
// The integers together stay below 2^24, so that float holds them exactly.
struct HalfScales {
  F32x16 both;
  ShortSums first, last;
};
template <class Codes, class Rows>
OCTAVO_INLINE void add_scaled_halves(const std::byte* lines, Rows a, const HalfScales& scales,
                                     F32x16* acc) {
  static_assert(int64_t{2} * 128 * 2 * 32767 < 1 << 24);
  constexpr auto kQuads = std::make_integer_sequence<int, 4>();
  I32x16 sums[Rows::kRows];
  ShortSums shorts[Rows::kRows];
  short_sums<Codes, Span::kFirstHalf>(kQuads, lines, a, shorts);
#pragma GCC unroll 16
  for (int r = 0; r < Rows::kRows; ++r) sums[r] = scaled_shorts(shorts[r], scales.first);
  short_sums<Codes, Span::kLastHalf>(kQuads, lines, a, shorts);
#pragma GCC unroll 16
  for (int r = 0; r < Rows::kRows; ++r) {
    sums[r] = sums[r] + scaled_shorts(shorts[r], scales.last);
    acc[r] = fma(to_f32(sums[r]), scales.both * a.scale(r), acc[r]);
  }
}
#else
struct HalfScales {
  F32x16 first, last;
};
// The float step of a group with two scales. weighted(r): row r's sums of the first half times
// their scale; last(r): those of the other half.
template <class Rows, class Weighted, class Sums>
OCTAVO_INLINE void add_half_sums(Rows a, F32x16 scale, F32x16* acc, Weighted weighted, Sums last) {
#pragma GCC unroll 16
  for (int r = 0; r < Rows::kRows; ++r) {
    acc[r] = fma(fma(last(r), scale, weighted(r)), a.scale(r), acc[r]);
  }
}
template <class Codes, class Rows>
OCTAVO_INLINE void add_scaled_halves(const std::byte* lines, Rows a, const HalfScales& scales,
                                     F32x16* acc) {
  I32x16 sums[Rows::kRows];
  F32x16 weighted[Rows::kRows];
  integer_sums<Codes, Span::kFirstHalf>(lines, a, sums);
#pragma GCC unroll 16
  for (int r = 0; r < Rows::kRows; ++r) weighted[r] = to_f32(sums[r]) * scales.first;
  integer_sums<Codes, Span::kLastHalf>(lines, a, sums);
  add_half_sums(
      a, scales.last, acc, [&](int r) { return weighted[r]; },
      [&](int r) { return to_f32(sums[r]); });
}
#endif

template <int R>
OCTAVO_INLINE void add_minimum(PanelGroup<R> a, F32x16 minimum, F32x16 (&acc)[R]) {
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) acc[r] = fma(minimum, a.sum(r), acc[r]);
}

OCTAVO_INLINE F32x16 load_halves(const std::byte* scales, int entry) {
  return load_f16(reinterpret_cast<const uint16_t*>(scales) + entry * kTileColumns);
}

// The scale, and the minimum, of group g of a block of a format that has one for whole groups.
template <WeightFormat kFormat>
OCTAVO_INLINE F32x16 group_scale(const std::byte* scales, int g) {
  constexpr ScaleKind kScales = block_layout(kFormat).scales;
  if constexpr (kScales == ScaleKind::kPlain) return load_halves(scales, g);
  if constexpr (kScales == ScaleKind::kMinimum) return load_halves(scales, 0);
  const uint8_t* bytes = reinterpret_cast<const uint8_t*>(scales) + (4 + g) * kTileColumns;
  return load_halves(scales, 0) * to_f32(load_u8(bytes));
}
template <WeightFormat kFormat>
OCTAVO_INLINE F32x16 group_minimum(const std::byte* scales, int g) {
  constexpr BlockLayout kLayout = block_layout(kFormat);
  if constexpr (kLayout.scales == ScaleKind::kMinimum) return load_halves(scales, 1);
  const int line = 4 + kLayout.groups + g;
  const uint8_t* bytes = reinterpret_cast<const uint8_t*>(scales) + line * kTileColumns;
  return zero_f32() - load_halves(scales, 1) * to_f32(load_u8(bytes));
}
// The scales of the halves of group g.
OCTAVO_INLINE HalfScales half_scales(const std::byte* scales, int g) {
  const int8_t* bytes = reinterpret_cast<const int8_t*>(scales) + (2 + 2 * g) * kTileColumns;
  const F32x16 d = load_halves(scales, 0);
#if defined(OCTAVO_PAIR_SUMS)
  return {d, load_i8_pairs(bytes), load_i8_pairs(bytes + kTileColumns)};
#else
  return {d * to_f32(load_i8(bytes)), d * to_f32(load_i8(bytes + kTileColumns))};
#endif
}

// Groups [0, count) of one block.
template <WeightFormat kFormat, int R>
OCTAVO_INLINE void add_block(const std::byte* block, int count, PanelGroup<R> a, int64_t ahead,
                             F32x16 (&acc)[R]) {
  constexpr BlockLayout kLayout = block_layout(kFormat);
  using Codes = OCTAVO_LEVEL::Codes<kLayout.bits, kLayout.zero_point>;
  const std::byte* lines = block + kLayout.code_offset();
  for (int g = 0; g < count; ++g, lines += kLayout.code_bytes(), a.data += a.kBytes) {
    if constexpr (R > 1 || kStreamAhead > 0) {
      for (int i = 0; i < kLayout.code_bytes(); i += kLineBytes) {
        __builtin_prefetch(lines + ahead + i);
      }
    }
    if constexpr (kLayout.scales == ScaleKind::kSuperHalves) {
      constexpr int kFew = R > 8 ? R / 2 : R;  // three vectors per row: more would not fit
      const HalfScales scales = half_scales(block, g);
      add_scaled_halves<Codes>(lines, PanelGroup<R, 0, kFew>{a.data}, scales, acc);
      if constexpr (kFew < R) {
        add_scaled_halves<Codes>(lines, PanelGroup<R, kFew, R - kFew>{a.data}, scales, acc + kFew);
      }
    } else {
      add_scaled<Codes>(lines, a, group_scale<kFormat>(block, g), acc);
      if constexpr (kLayout.scales != ScaleKind::kPlain) {
        add_minimum(a, group_minimum<kFormat>(block, g), acc);
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
