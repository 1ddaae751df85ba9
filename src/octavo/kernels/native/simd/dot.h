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

// How many quads of kBits codes `dot` takes at once. Without VNNI, products are first summed in
// int16, which holds kDotQuads * 2 products of the largest code with 127; at 8 bits not even one
// pair.
#if defined(OCTAVO_LEVEL_avx512)
template <int kBits>
inline constexpr int kDotQuads = (kBits <= 5)   ? 4
                                 : (kBits == 6) ? 2
                                                : 1;
#elif defined(OCTAVO_AVX2)  // fewer, for want of registers
template <int kBits>
inline constexpr int kDotQuads = (kBits <= 6) ? 2 : 1;
#else
template <int kBits>
inline constexpr int kDotQuads = 1;
#endif
// One activation row's quads that meet kCount lines of codes.
template <int kCount>
struct Quads {
  const std::byte* at[kCount];
};

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
// code | (upper >> kShift & kMask) byte by byte; a negative kShift goes left.
template <int kShift, int kMask>
OCTAVO_INLINE U8x64 with_upper_bits(U8x64 code, U8x64 upper) {
  const __m512i moved =
      kShift >= 0 ? _mm512_srli_epi16(upper.v, kShift) : _mm512_slli_epi16(upper.v, -kShift);
  constexpr int kAOrBAndC = 0xf8;
  return {_mm512_ternarylogic_epi32(code.v, moved, _mm512_set1_epi8(kMask), kAOrBAndC)};
}

// acc[column] += the sum over kDotQuads quads of code[4 column + i] * activation[i].
template <int kBits, int kCount>
OCTAVO_INLINE I32x16 dot(I32x16 acc, const U8x64 (&codes)[kCount], Quads<kCount> quads) {
  static_assert(kCount == kDotQuads<kBits>);
#if defined(OCTAVO_LEVEL_avx512_vnni)
  // As text, because the compiler would broadcast the quad into a register of its own.
  asm("vpdpbusd %2%{1to16%}, %1, %0"
      : "+v"(acc.v)
      : "v"(codes[0].v), "m"(*reinterpret_cast<const int32_t*>(quads.at[0])));
  return acc;
#else
  const __m512i ones = _mm512_set1_epi16(1);
  const auto products = [&](int i, __m512i c) {
    return _mm512_maddubs_epi16(c, _mm512_set1_epi32(load_word(quads.at[i])));
  };
  if constexpr (kBits == 8) {  // the top bit apart
    const __m512i top = _mm512_and_si512(codes[0].v, _mm512_set1_epi8(-128));
    const __m512i rest = _mm512_and_si512(codes[0].v, _mm512_set1_epi8(127));
    const __m512i high = _mm512_madd_epi16(products(0, top), ones);
    const __m512i low = _mm512_madd_epi16(products(0, rest), ones);
    return {_mm512_add_epi32(acc.v, _mm512_add_epi32(high, low))};
  }
  __m512i sum = products(0, codes[0].v);
  for (int i = 1; i < kCount; ++i) sum = _mm512_add_epi16(sum, products(i, codes[i].v));
  return {_mm512_add_epi32(acc.v, _mm512_madd_epi16(sum, ones))};
#endif
}

#elif defined(OCTAVO_AVX2)

struct U8x64 {
  __m256i a, b;
};

OCTAVO_INLINE U8x64 load_line(const std::byte* p) {
  const __m256i* q = reinterpret_cast<const __m256i*>(p);
  return {_mm256_loadu_si256(q), _mm256_loadu_si256(q + 1)};
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

template <int kBits, int kCount>
OCTAVO_INLINE I32x16 dot(I32x16 acc, const U8x64 (&codes)[kCount], Quads<kCount> quads) {
  static_assert(kCount == kDotQuads<kBits>);
  const __m256i ones = _mm256_set1_epi16(1);
  __m256i a = _mm256_set1_epi32(load_word(quads.at[0]));
  if constexpr (kBits == 8) {  // the top bit apart
    const __m256i top = _mm256_set1_epi8(-128), rest = _mm256_set1_epi8(127);
    const auto add_masked = [&](__m256i sum, __m256i c, __m256i mask) {
      const __m256i products = _mm256_maddubs_epi16(_mm256_and_si256(c, mask), a);
      return _mm256_add_epi32(sum, _mm256_madd_epi16(products, ones));
    };
    return {add_masked(add_masked(acc.a, codes[0].a, top), codes[0].a, rest),
            add_masked(add_masked(acc.b, codes[0].b, top), codes[0].b, rest)};
  }
  __m256i sum_a = _mm256_maddubs_epi16(codes[0].a, a), sum_b = _mm256_maddubs_epi16(codes[0].b, a);
  for (int i = 1; i < kCount; ++i) {
    a = _mm256_set1_epi32(load_word(quads.at[i]));
    sum_a = _mm256_add_epi16(sum_a, _mm256_maddubs_epi16(codes[i].a, a));
    sum_b = _mm256_add_epi16(sum_b, _mm256_maddubs_epi16(codes[i].b, a));
  }
  return {_mm256_add_epi32(acc.a, _mm256_madd_epi16(sum_a, ones)),
          _mm256_add_epi32(acc.b, _mm256_madd_epi16(sum_b, ones))};
}

#else  // plain C++

// Inlined and unrolled for every format and row count, these loops would compile for minutes.
#define OCTAVO_CALLED inline __attribute__((noinline))

struct U8x64 {
  uint8_t v[64];
};

OCTAVO_CALLED U8x64 load_line(const std::byte* p) {
  U8x64 x;
  std::memcpy(x.v, p, 64);
  return x;
}
OCTAVO_CALLED U8x64 low_nibbles(U8x64 x) {
  for (int i = 0; i < 64; ++i) x.v[i] &= 15;
  return x;
}
OCTAVO_CALLED U8x64 high_nibbles(U8x64 x) {
  for (int i = 0; i < 64; ++i) x.v[i] >>= 4;
  return x;
}
template <int kShift, int kMask>
OCTAVO_CALLED U8x64 with_upper_bits(U8x64 code, U8x64 upper) {
  constexpr int kRight = kShift > 0 ? kShift : 0, kLeft = kShift < 0 ? -kShift : 0;
  for (int i = 0; i < 64; ++i) {
    code.v[i] = static_cast<uint8_t>(code.v[i] | ((upper.v[i] >> kRight << kLeft) & kMask));
  }
  return code;
}

OCTAVO_CALLED I32x16 dot_quad(I32x16 acc, U8x64 codes, const std::byte* quad) {
  int8_t a[4];
  std::memcpy(a, quad, 4);
  for (int column = 0; column < 16; ++column) {
    const uint8_t* c = codes.v + 4 * column;
    acc.v[column] += c[0] * a[0] + c[1] * a[1] + c[2] * a[2] + c[3] * a[3];
  }
  return acc;
}
template <int kBits>
OCTAVO_INLINE I32x16 dot(I32x16 acc, const U8x64 (&codes)[1], Quads<1> quads) {
  return dot_quad(acc, codes[0], quads.at[0]);
}

#undef OCTAVO_CALLED

#endif

}  // namespace octavo::OCTAVO_LEVEL
