// Integer dot products of weight codes and int8 activations, sixteen output columns at a time.
// Exact for every input on every level: codes are unsigned (up to 255), activations -127..127.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "simd/vec.h"

namespace octavo::OCTAVO_LEVEL {

// Four bytes (a quad) of one activation row as one 32-bit number.
OCTAVO_INLINE int32_t load_word(const std::byte* p) {
  int32_t word;
  std::memcpy(&word, p, 4);
  return word;
}

// Makes the compiler store an array here and reload its elements where they are used.
template <typename T, int kCount>
OCTAVO_INLINE void keep_in_memory(T (&array)[kCount]) {
  asm("" : "+m"(array));
}

// Without VNNI, products are first summed in int16. OCTAVO_SHORT_SUMS marks the levels that do so,
// OCTAVO_PAIR_SUMS those of them whose sums begin at minus the zero point times the activations'
// sums (formats/activation.h), so that only what is left when all is added must fit.
#if !defined(OCTAVO_VNNI) && !defined(OCTAVO_DOTPROD)
#define OCTAVO_SHORT_SUMS 1
#if defined(OCTAVO_AVX2)
#define OCTAVO_PAIR_SUMS 1
#endif
#endif
#if defined(OCTAVO_PAIR_SUMS)
inline constexpr bool kPairSums = true;
#else
inline constexpr bool kPairSums = false;
#endif
// What is subtracted from codes before they are multiplied: codes of 8 bits become signed where
// int16 holds no pair of their products otherwise, and where the instruction takes signed bytes.
template <int kBits>
#if defined(OCTAVO_VNNI)
inline constexpr int kDotZeroPoint = 0;
#else
inline constexpr int kDotZeroPoint = kBits == 8 ? 128 : 0;
#endif

// How many of a group's 8 quads are summed at once: int16 holds the sums of two products of each
// with 127, of the code that is farthest from what is subtracted by then.
template <int kBits, int kZeroPoint>
constexpr int dot_quads() {
#if defined(OCTAVO_SHORT_SUMS)
  constexpr int kZero = kPairSums ? kZeroPoint : kDotZeroPoint<kBits>;
  constexpr int kAbove = (1 << kBits) - 1 - kZero, kFarthest = kZero > kAbove ? kZero : kAbove;
  constexpr int kQuads = 32767 / (2 * 127 * kFarthest);
  return kQuads < 8 ? kQuads : 8;
#else
  return 8;
#endif
}

}  // namespace octavo::OCTAVO_LEVEL

#if !defined(OCTAVO_AVX512) && !defined(OCTAVO_AVX2)
#include "simd/dot_quarters.h"
#endif

namespace octavo::OCTAVO_LEVEL {

// 64 unsigned bytes: the quads of sixteen columns.
#if defined(OCTAVO_AVX512)

struct U8x64 {
  __m512i v;
};

OCTAVO_INLINE U8x64 load_line(const std::byte* p) { return {_mm512_loadu_si512(p)}; }
OCTAVO_INLINE U8x64 low_nibbles(U8x64 x) { return {_mm512_and_si512(x.v, _mm512_set1_epi8(15))}; }
OCTAVO_INLINE U8x64 high_nibbles(U8x64 x) {
  return {_mm512_and_si512(_mm512_srli_epi16(x.v, 4), _mm512_set1_epi8(15))};
}
OCTAVO_INLINE void store_line(std::byte* p, U8x64 x) { _mm512_storeu_si512(p, x.v); }
// Each byte less kZero, as a signed one.
template <int kZero>
OCTAVO_INLINE U8x64 less(U8x64 x) {
  return {_mm512_sub_epi8(x.v, _mm512_set1_epi8(static_cast<char>(kZero)))};
}
// code | (upper >> kShift & kMask) byte by byte; a negative kShift goes left.
template <int kShift, int kMask>
OCTAVO_INLINE U8x64 with_upper_bits(U8x64 code, U8x64 upper) {
  const __m512i moved =
      kShift >= 0 ? _mm512_srli_epi16(upper.v, kShift) : _mm512_slli_epi16(upper.v, -kShift);
  constexpr int kAOrBAndC = 0xf8;
  return {_mm512_ternarylogic_epi32(code.v, moved, _mm512_set1_epi8(kMask), kAOrBAndC)};
}

#if defined(OCTAVO_VNNI)
// acc[column] += the sum of (codes[4 column + i] - kDotZeroPoint) * quad[i].
template <int kBits>
OCTAVO_INLINE I32x16 dot(I32x16 acc, U8x64 codes, const std::byte* quad) {
  // As text, because the compiler would broadcast the quad into a register of its own.
  asm("vpdpbusd %2%{1to16%}, %1, %0"
      : "+v"(acc.v)
      : "v"(codes.v), "m"(*reinterpret_cast<const int32_t*>(quad)));
  return acc;
}
#else
// Of each column the sums of its even and odd pairs of products.
struct ShortSums {
  __m512i v;
};
// The sums of (codes[4 column + i] - kDotZeroPoint) * quad[i].
template <int kBits>
OCTAVO_INLINE ShortSums products(U8x64 codes, const std::byte* quad) {
  __m512i c = codes.v, a = _mm512_set1_epi32(load_word(quad));
  if constexpr (kBits == 8) {  // the magnitude of the code times the activation with its sign
    const __mmask64 negative = _mm512_cmplt_epu8_mask(c, _mm512_set1_epi8(-128));
    c = _mm512_abs_epi8(_mm512_xor_si512(c, _mm512_set1_epi8(-128)));
    a = _mm512_mask_sub_epi8(a, negative, _mm512_setzero_si512(), a);
  }
  return {_mm512_maddubs_epi16(c, a)};
}
template <int kBits>
OCTAVO_INLINE ShortSums add_products(ShortSums sums, U8x64 codes, const std::byte* quad) {
  return {_mm512_add_epi16(sums.v, products<kBits>(codes, quad).v)};
}
// Both sums of each column together.
OCTAVO_INLINE I32x16 widen(ShortSums sums) {
  return {_mm512_madd_epi16(sums.v, _mm512_set1_epi16(1))};
}
OCTAVO_INLINE I32x16 add_widened(I32x16 acc, ShortSums sums) { return acc + widen(sums); }
#endif

#elif defined(OCTAVO_AVX2)

struct U8x64 {
  __m256i a, b;
};

OCTAVO_INLINE U8x64 load_line(const std::byte* p) {
  const __m256i* q = reinterpret_cast<const __m256i*>(p);
  return {_mm256_loadu_si256(q), _mm256_loadu_si256(q + 1)};
}
OCTAVO_INLINE void store_line(std::byte* p, U8x64 x) {
  __m256i* q = reinterpret_cast<__m256i*>(p);
  _mm256_storeu_si256(q, x.a);
  _mm256_storeu_si256(q + 1, x.b);
}
OCTAVO_INLINE U8x64 low_nibbles(U8x64 x) {
  const __m256i mask = _mm256_set1_epi8(15);
  return {_mm256_and_si256(x.a, mask), _mm256_and_si256(x.b, mask)};
}
OCTAVO_INLINE U8x64 high_nibbles(U8x64 x) {
  return low_nibbles({_mm256_srli_epi16(x.a, 4), _mm256_srli_epi16(x.b, 4)});
}
template <int kShift, int kMask>
OCTAVO_INLINE U8x64 with_upper_bits(U8x64 code, U8x64 upper) {
  const auto merge = [](__m256i c, __m256i u) {
    const __m256i moved =
        kShift >= 0 ? _mm256_srli_epi16(u, kShift) : _mm256_slli_epi16(u, -kShift);
    return _mm256_or_si256(c, _mm256_and_si256(moved, _mm256_set1_epi8(kMask)));
  };
  return {merge(code.a, upper.a), merge(code.b, upper.b)};
}

#if defined(OCTAVO_VNNI)
// Tests on processors with AVX-512 but without the VEX form run the same instruction in its EVEX
// form (CMake option OCTAVO_EVEX_VNNI).
#if defined(OCTAVO_EVEX_VNNI)
#define OCTAVO_VPDPBUSD "%{evex%} vpdpbusd"
#else
#define OCTAVO_VPDPBUSD "%{vex%} vpdpbusd"
#endif
template <int kBits>
OCTAVO_INLINE I32x16 dot(I32x16 acc, U8x64 codes, const std::byte* quad) {
  const __m256i a = _mm256_set1_epi32(load_word(quad));
  asm(OCTAVO_VPDPBUSD " %2, %1, %0" : "+x"(acc.a) : "x"(codes.a), "x"(a));
  asm(OCTAVO_VPDPBUSD " %2, %1, %0" : "+x"(acc.b) : "x"(codes.b), "x"(a));
  return acc;
}
#undef OCTAVO_VPDPBUSD
#else
struct ShortSums {
  __m256i a, b;
};
// The same two int16 in every column.
OCTAVO_INLINE ShortSums splat_shorts(const std::byte* two) {
  const __m256i pair = _mm256_set1_epi32(load_word(two));
  return {pair, pair};
}
OCTAVO_INLINE ShortSums operator-(ShortSums x, ShortSums y) {
  return {_mm256_sub_epi16(x.a, y.a), _mm256_sub_epi16(x.b, y.b)};
}
template <int N>
OCTAVO_INLINE ShortSums shift_left(ShortSums x) {
  return {_mm256_slli_epi16(x.a, N), _mm256_slli_epi16(x.b, N)};
}
template <int kBits>
OCTAVO_INLINE ShortSums products(U8x64 codes, const std::byte* quad) {
  const __m256i a = _mm256_set1_epi32(load_word(quad));
  const auto product = [a](__m256i c) {
    if constexpr (kBits == 8) {  // the magnitude of the code times the activation with its sign
      c = _mm256_xor_si256(c, _mm256_set1_epi8(-128));
      return _mm256_maddubs_epi16(_mm256_abs_epi8(c), _mm256_sign_epi8(a, c));
    }
    return _mm256_maddubs_epi16(c, a);
  };
  return {product(codes.a), product(codes.b)};
}
template <int kBits>
OCTAVO_INLINE ShortSums add_products(ShortSums sums, U8x64 codes, const std::byte* quad) {
  const ShortSums more = products<kBits>(codes, quad);
  // As text, because the compiler would add products up in trees first and run out of registers.
  asm("vpaddw %1, %0, %0" : "+x"(sums.a) : "x"(more.a));
  asm("vpaddw %1, %0, %0" : "+x"(sums.b) : "x"(more.b));
  return sums;
}
OCTAVO_INLINE I32x16 widen(ShortSums sums) {
  const __m256i ones = _mm256_set1_epi16(1);
  return {_mm256_madd_epi16(sums.a, ones), _mm256_madd_epi16(sums.b, ones)};
}
OCTAVO_INLINE I32x16 add_widened(I32x16 acc, ShortSums sums) {
  const I32x16 more = widen(sums);
  asm("vpaddd %1, %0, %0" : "+x"(acc.a) : "x"(more.a));
  asm("vpaddd %1, %0, %0" : "+x"(acc.b) : "x"(more.b));
  return acc;
}
// A small number for each column, as what both its sums are multiplied with.
OCTAVO_INLINE ShortSums load_i8_pairs(const int8_t* p) {
  const I32x16 x = load_i8(p), upper = shift_left<16>(x);
  return {_mm256_blend_epi16(x.a, upper.a, 0xaa), _mm256_blend_epi16(x.b, upper.b, 0xaa)};
}
OCTAVO_INLINE ShortSums load_shorts(const float* p) {
  const __m256i* q = reinterpret_cast<const __m256i*>(p);
  return {_mm256_loadu_si256(q), _mm256_loadu_si256(q + 1)};
}
OCTAVO_INLINE void store_shorts(float* p, ShortSums x) {
  __m256i* q = reinterpret_cast<__m256i*>(p);
  _mm256_storeu_si256(q, x.a);
  _mm256_storeu_si256(q + 1, x.b);
}
OCTAVO_INLINE I32x16 scaled_shorts(ShortSums sums, ShortSums scales) {
  return {_mm256_madd_epi16(sums.a, scales.a), _mm256_madd_epi16(sums.b, scales.b)};
}
// Of 32 values the sums over every other pair of neighbours, from the first and from the second, as
// two int16 in one number: of all values, and of the last 16.
struct PairSums {
  int32_t all, last;
};
OCTAVO_INLINE PairSums minus_pair_sums(const int8_t* values) {
  const __m256i v = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(values));
  const __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), v);
  const __m256i two = _mm256_add_epi16(pairs, _mm256_shuffle_epi32(pairs, 0x4e));
  const __m256i half = _mm256_add_epi16(two, _mm256_shuffle_epi32(two, 0xb1));
  const __m256i minus = _mm256_sub_epi16(_mm256_setzero_si256(), half);
  const __m128i first = _mm256_castsi256_si128(minus), last = _mm256_extracti128_si256(minus, 1);
  return {_mm_cvtsi128_si32(_mm_add_epi16(first, last)), _mm_cvtsi128_si32(last)};
}
#endif

#endif

}  // namespace octavo::OCTAVO_LEVEL
