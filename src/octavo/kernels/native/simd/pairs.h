// Dot products of pairs of int16, sixteen sums at a time: the arithmetic of attention over integer
// pages. Exact on every level, as long as no sum leaves 32 bits; that is the caller's to see to.
#pragma once

#include <cstdint>
#include <cstring>

#include "simd/vec.h"

namespace octavo::OCTAVO_LEVEL {

#if defined(OCTAVO_AVX512)

// Sixteen pairs.
struct I16x32 {
  __m512i v;
};

OCTAVO_INLINE I16x32 load_pairs(const int16_t* p) { return {_mm512_loadu_si512(p)}; }
OCTAVO_INLINE I16x32 load_pairs(const int8_t* p) {
  return {_mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
// acc[i] += a[2 i] * pair[0] + a[2 i + 1] * pair[1].
OCTAVO_INLINE I32x16 dot_pairs(I32x16 acc, I16x32 a, const int16_t* pair) {
#if defined(OCTAVO_VNNI)
  // As text, because the compiler would broadcast the pair into a register of its own.
  struct Pair {
    int16_t of[2];
  };
  asm("vpdpwssd %2%{1to16%}, %1, %0"
      : "+v"(acc.v)
      : "v"(a.v), "m"(*reinterpret_cast<const Pair*>(pair)));
  return acc;
#else
  int32_t word;
  std::memcpy(&word, pair, 4);
  return {_mm512_add_epi32(acc.v, _mm512_madd_epi16(a.v, _mm512_set1_epi32(word)))};
#endif
}
// Saturating narrow to int16.
OCTAVO_INLINE void store_i16(int16_t* p, I32x16 a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_maskz_cvtsepi32_epi16(0xffff, a.v));
}

#elif defined(OCTAVO_AVX2)

struct I16x32 {
  __m256i a, b;
};

OCTAVO_INLINE I16x32 load_pairs(const int16_t* p) {
  const __m256i* q = reinterpret_cast<const __m256i*>(p);
  return {_mm256_loadu_si256(q), _mm256_loadu_si256(q + 1)};
}
OCTAVO_INLINE I16x32 load_pairs(const int8_t* p) {
  const __m128i* q = reinterpret_cast<const __m128i*>(p);
  return {_mm256_cvtepi8_epi16(_mm_loadu_si128(q)), _mm256_cvtepi8_epi16(_mm_loadu_si128(q + 1))};
}
OCTAVO_INLINE I32x16 dot_pairs(I32x16 acc, I16x32 x, const int16_t* pair) {
  int32_t word;
  std::memcpy(&word, pair, 4);
  const __m256i y = _mm256_set1_epi32(word);
  acc = {_mm256_add_epi32(acc.a, _mm256_madd_epi16(x.a, y)),
         _mm256_add_epi32(acc.b, _mm256_madd_epi16(x.b, y))};
  // Or the compiler would take many products first and run out of registers.
  asm volatile("" : "+x"(acc.a), "+x"(acc.b));
  return acc;
}
OCTAVO_INLINE void store_i16(int16_t* p, I32x16 x) {
  // The pack interleaves the 128-bit lanes of its operands.
  const __m256i packed = _mm256_packs_epi32(x.a, x.b);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_permute4x64_epi64(packed, 0xd8));
}

#else  // plain C++

struct I16x32 {
  int16_t v[32];
};

OCTAVO_INLINE I16x32 load_pairs(const int16_t* p) {
  I16x32 r;
  std::memcpy(r.v, p, 64);
  return r;
}
OCTAVO_INLINE I16x32 load_pairs(const int8_t* p) {
  I16x32 r;
  for (int i = 0; i < 32; ++i) r.v[i] = p[i];
  return r;
}
OCTAVO_INLINE I32x16 dot_pairs(I32x16 acc, I16x32 a, const int16_t* pair) {
  for (int i = 0; i < 16; ++i) acc.v[i] += a.v[2 * i] * pair[0] + a.v[2 * i + 1] * pair[1];
  return acc;
}
OCTAVO_INLINE void store_i16(int16_t* p, I32x16 a) {
  for (int i = 0; i < 16; ++i) {
    p[i] = static_cast<int16_t>(a.v[i] > 32767 ? 32767 : a.v[i] < -32768 ? -32768 : a.v[i]);
  }
}

#endif

}  // namespace octavo::OCTAVO_LEVEL
