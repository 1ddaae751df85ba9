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
#if defined(OCTAVO_EVEX_VNNI)  // see simd/dot.h
  asm("%{evex%} vpdpwssd %2, %1, %0" : "+x"(acc.a) : "x"(x.a), "x"(y));
  asm("%{evex%} vpdpwssd %2, %1, %0" : "+x"(acc.b) : "x"(x.b), "x"(y));
  return acc;
#elif defined(OCTAVO_VNNI)
  asm("%{vex%} vpdpwssd %2, %1, %0" : "+x"(acc.a) : "x"(x.a), "x"(y));
  asm("%{vex%} vpdpwssd %2, %1, %0" : "+x"(acc.b) : "x"(x.b), "x"(y));
  return acc;
#else
  // As text, because the compiler would take many products first and run out of registers.
  asm("vpaddd %1, %0, %0" : "+x"(acc.a) : "x"(_mm256_madd_epi16(x.a, y)));
  asm("vpaddd %1, %0, %0" : "+x"(acc.b) : "x"(_mm256_madd_epi16(x.b, y)));
  return acc;
#endif
}
OCTAVO_INLINE void store_i16(int16_t* p, I32x16 x) {
  // The pack interleaves the 128-bit lanes of its operands.
  const __m256i packed = _mm256_packs_epi32(x.a, x.b);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_permute4x64_epi64(packed, 0xd8));
}

#else  // the compiler's vectors of 128 bits

typedef int16_t I16x8 __attribute__((vector_size(16)));

struct I16x32 {
  I16x8 q[4];
};

OCTAVO_INLINE I16x32 load_pairs(const int16_t* p) {
  return quarters<I16x32>([=](int i) { return load_vector<I16x8>(p + 8 * i); });
}
OCTAVO_INLINE I16x32 load_pairs(const int8_t* p) {
  int16_t wide[32];
  for (int i = 0; i < 32; ++i) wide[i] = p[i];
  return load_pairs(wide);
}
OCTAVO_INLINE I32x16 dot_pairs(I32x16 acc, I16x32 a, const int16_t* pair) {
#if defined(__SSE2__)
  int32_t word;
  std::memcpy(&word, pair, 4);
  const auto y = as_bits<I16x8>(I32x4{word, word, word, word});
  return quarters<I32x16>(
      [&](int i) { return acc.q[i] + as_bits<I32x4>(__builtin_ia32_pmaddwd128(a.q[i], y)); });
#else
  const int32_t first = pair[0], second = pair[1];
  return quarters<I32x16>([&](int i) {
    const auto both = as_bits<I32x4>(a.q[i]);
    return acc.q[i] + (both << 16 >> 16) * first + (both >> 16) * second;
  });
#endif
}
OCTAVO_INLINE void store_i16(int16_t* p, I32x16 a) {
  int32_t wide[16];
  std::memcpy(wide, &a, sizeof(wide));
  for (int i = 0; i < 16; ++i) {
    p[i] = static_cast<int16_t>(wide[i] > 32767 ? 32767 : wide[i] < -32768 ? -32768 : wide[i]);
  }
}

#endif

}  // namespace octavo::OCTAVO_LEVEL
