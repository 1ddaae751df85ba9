// Sixteen float or int32 lanes, whatever the instruction set: one zmm, two ymm, or four
// vectors of 128 bits.
// The only place, with simd/dot.h, where kernels meet intrinsics. Lanes never mix except in the
// named reductions, which have one fixed order on every level.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "formats/half.h"

#if defined(OCTAVO_LEVEL_avx512) || defined(OCTAVO_LEVEL_avx512_vnni)
#define OCTAVO_AVX512 1
#elif defined(OCTAVO_LEVEL_avx2) || defined(OCTAVO_LEVEL_avx2_vnni)
#define OCTAVO_AVX2 1
#elif defined(OCTAVO_LEVEL_neon) || defined(OCTAVO_LEVEL_neon_dotprod)
#define OCTAVO_NEON 1
#endif
#if defined(OCTAVO_LEVEL_avx512_vnni) || defined(OCTAVO_LEVEL_avx2_vnni)
#define OCTAVO_VNNI 1
#elif defined(OCTAVO_LEVEL_neon_dotprod)
#define OCTAVO_DOTPROD 1
#endif

#define OCTAVO_INLINE inline __attribute__((always_inline))

#if defined(OCTAVO_AVX512) || defined(OCTAVO_AVX2)
#include <immintrin.h>
#else
#include "simd/vec_quarters.h"
#endif

namespace octavo::OCTAVO_LEVEL {

inline constexpr int kLanes = 16;

#if defined(OCTAVO_AVX512)

struct F32x16 {
  __m512 v;
};
struct I32x16 {
  __m512i v;
};

OCTAVO_INLINE F32x16 zero_f32() { return {_mm512_setzero_ps()}; }
OCTAVO_INLINE F32x16 splat(float x) { return {_mm512_set1_ps(x)}; }
OCTAVO_INLINE F32x16 load(const float* p) { return {_mm512_loadu_ps(p)}; }
OCTAVO_INLINE void store(float* p, F32x16 a) { _mm512_storeu_ps(p, a.v); }
OCTAVO_INLINE F32x16 load_f16(const uint16_t* p) {
  return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
OCTAVO_INLINE F32x16 load_bf16(const uint16_t* p) {
  return {_mm512_castsi512_ps(_mm512_slli_epi32(
      _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))), 16))};
}
OCTAVO_INLINE void store_f16(uint16_t* p, F32x16 a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                      _mm512_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
// Rounds to nearest, ties to even; NaN stays NaN.
OCTAVO_INLINE void store_bf16(uint16_t* p, F32x16 a) {
  const __m512i bits = _mm512_castps_si512(a.v), high = _mm512_srli_epi32(bits, 16);
  const __m512i odd = _mm512_and_si512(high, _mm512_set1_epi32(1));
  const __m512i round_up = _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff));
  const __m512i rounded = _mm512_srli_epi32(_mm512_add_epi32(bits, round_up), 16);
  const __mmask16 nan = _mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q);
  const __m512i kept = _mm512_mask_or_epi32(rounded, nan, high, _mm512_set1_epi32(0x40));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(kept));
}
OCTAVO_INLINE F32x16 operator+(F32x16 a, F32x16 b) { return {_mm512_add_ps(a.v, b.v)}; }
OCTAVO_INLINE F32x16 operator-(F32x16 a, F32x16 b) { return {_mm512_sub_ps(a.v, b.v)}; }
OCTAVO_INLINE F32x16 operator*(F32x16 a, F32x16 b) { return {_mm512_mul_ps(a.v, b.v)}; }
OCTAVO_INLINE F32x16 operator/(F32x16 a, F32x16 b) { return {_mm512_div_ps(a.v, b.v)}; }
OCTAVO_INLINE F32x16 fma(F32x16 a, F32x16 b, F32x16 c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
// Lane i is lane i ^ K of a; K is 1, 2, 4 or 8.
template <int K>
OCTAVO_INLINE F32x16 swap_lanes(F32x16 a) {
  if constexpr (K < 4) return {_mm512_permute_ps(a.v, K == 1 ? 0xb1 : 0x4e)};
  if constexpr (K >= 4) return {_mm512_shuffle_f32x4(a.v, a.v, K == 4 ? 0xb1 : 0x4e)};
}
OCTAVO_INLINE F32x16 max(F32x16 a, F32x16 b) { return {_mm512_max_ps(a.v, b.v)}; }
OCTAVO_INLINE F32x16 min(F32x16 a, F32x16 b) { return {_mm512_min_ps(a.v, b.v)}; }
OCTAVO_INLINE F32x16 abs(F32x16 a) { return {_mm512_abs_ps(a.v)}; }
// Lane i is x where a < b, else y (so y where either is NaN).
OCTAVO_INLINE F32x16 select_less(F32x16 a, F32x16 b, F32x16 x, F32x16 y) {
  return {_mm512_mask_mov_ps(y.v, _mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ), x.v)};
}
// Lanes [begin, end) of a, `other` elsewhere; 0 <= begin <= end <= 16.
OCTAVO_INLINE F32x16 keep_lanes(F32x16 a, int begin, int end, float other) {
  const __mmask16 kept = static_cast<__mmask16>((1u << end) - (1u << begin));
  return {_mm512_mask_mov_ps(_mm512_set1_ps(other), kept, a.v)};
}
OCTAVO_INLINE F32x16 round_even(F32x16 a) {
  return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
OCTAVO_INLINE F32x16 to_f32(I32x16 a) { return {_mm512_cvtepi32_ps(a.v)}; }
OCTAVO_INLINE I32x16 to_i32(F32x16 a) { return {_mm512_cvtps_epi32(a.v)}; }
// Towards 0.
OCTAVO_INLINE I32x16 truncate(F32x16 a) { return {_mm512_cvttps_epi32(a.v)}; }
OCTAVO_INLINE F32x16 bits_to_f32(I32x16 a) { return {_mm512_castsi512_ps(a.v)}; }
OCTAVO_INLINE I32x16 zero_i32() { return {_mm512_setzero_si512()}; }
OCTAVO_INLINE I32x16 splat_i32(int32_t x) { return {_mm512_set1_epi32(x)}; }
OCTAVO_INLINE I32x16 load_i32(const int32_t* p) { return {_mm512_loadu_si512(p)}; }
OCTAVO_INLINE void store_i32(int32_t* p, I32x16 a) { _mm512_storeu_si512(p, a.v); }
OCTAVO_INLINE I32x16 operator+(I32x16 a, I32x16 b) { return {_mm512_add_epi32(a.v, b.v)}; }
OCTAVO_INLINE I32x16 operator-(I32x16 a, I32x16 b) { return {_mm512_sub_epi32(a.v, b.v)}; }
OCTAVO_INLINE I32x16 operator&(I32x16 a, I32x16 b) { return {_mm512_and_si512(a.v, b.v)}; }
template <int N>
OCTAVO_INLINE I32x16 shift_left(I32x16 a) {
  return {_mm512_slli_epi32(a.v, N)};
}
OCTAVO_INLINE I32x16 f32_bits(F32x16 a) { return {_mm512_castps_si512(a.v)}; }
OCTAVO_INLINE I32x16 max(I32x16 a, I32x16 b) { return {_mm512_max_epi32(a.v, b.v)}; }
OCTAVO_INLINE int32_t reduce_max(I32x16 a) { return _mm512_reduce_max_epi32(a.v); }
OCTAVO_INLINE int32_t reduce_sum(I32x16 a) { return _mm512_reduce_add_epi32(a.v); }
// Sixteen signed / unsigned bytes widened to int32.
OCTAVO_INLINE I32x16 load_i8(const int8_t* p) {
  return {_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
OCTAVO_INLINE I32x16 load_u8(const uint8_t* p) {
  return {_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
// Saturating narrow to int8.
OCTAVO_INLINE void store_i8(int8_t* p, I32x16 a) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtsepi32_epi8(a.v));
}

#elif defined(OCTAVO_AVX2)

struct F32x16 {
  __m256 a, b;
};
struct I32x16 {
  __m256i a, b;
};

OCTAVO_INLINE F32x16 zero_f32() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
OCTAVO_INLINE F32x16 splat(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
OCTAVO_INLINE F32x16 load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
OCTAVO_INLINE void store(float* p, F32x16 x) {
  _mm256_storeu_ps(p, x.a);
  _mm256_storeu_ps(p + 8, x.b);
}
OCTAVO_INLINE F32x16 load_f16(const uint16_t* p) {
  const __m128i* q = reinterpret_cast<const __m128i*>(p);
  return {_mm256_cvtph_ps(_mm_loadu_si128(q)), _mm256_cvtph_ps(_mm_loadu_si128(q + 1))};
}
OCTAVO_INLINE F32x16 load_bf16(const uint16_t* p) {
  const __m128i* q = reinterpret_cast<const __m128i*>(p);
  return {
      _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(q)), 16)),
      _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(q + 1)), 16))};
}
OCTAVO_INLINE void store_f16(uint16_t* p, F32x16 x) {
  __m128i* q = reinterpret_cast<__m128i*>(p);
  _mm_storeu_si128(q, _mm256_cvtps_ph(x.a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  _mm_storeu_si128(q + 1, _mm256_cvtps_ph(x.b, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
// Each lane's bfloat16 in its lower half. As in plain C++: to nearest, ties to even; NaN stays NaN.
OCTAVO_INLINE __m256i bf16_lanes(__m256 x) {
  const __m256i bits = _mm256_castps_si256(x), high = _mm256_srli_epi32(bits, 16);
  const __m256i odd = _mm256_and_si256(high, _mm256_set1_epi32(1));
  const __m256i round_up = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff));
  const __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(bits, round_up), 16);
  const __m256i quiet = _mm256_or_si256(high, _mm256_set1_epi32(0x40));
  const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
  return _mm256_blendv_epi8(rounded, quiet, nan);
}
OCTAVO_INLINE void store_bf16(uint16_t* p, F32x16 x) {
  // The pack interleaves the 128-bit lanes of its operands.
  const __m256i packed = _mm256_packus_epi32(bf16_lanes(x.a), bf16_lanes(x.b));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_permute4x64_epi64(packed, 0xd8));
}
OCTAVO_INLINE F32x16 operator+(F32x16 x, F32x16 y) {
  return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)};
}
OCTAVO_INLINE F32x16 operator-(F32x16 x, F32x16 y) {
  return {_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)};
}
OCTAVO_INLINE F32x16 operator*(F32x16 x, F32x16 y) {
  return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)};
}
OCTAVO_INLINE F32x16 operator/(F32x16 x, F32x16 y) {
  return {_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)};
}
OCTAVO_INLINE F32x16 fma(F32x16 x, F32x16 y, F32x16 z) {
  return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
}
template <int K>
OCTAVO_INLINE F32x16 swap_lanes(F32x16 x) {
  if constexpr (K == 8) return {x.b, x.a};
  if constexpr (K == 4) {
    return {_mm256_permute2f128_ps(x.a, x.a, 1), _mm256_permute2f128_ps(x.b, x.b, 1)};
  }
  constexpr int kOrder = K == 1 ? 0xb1 : 0x4e;
  if constexpr (K < 4) return {_mm256_permute_ps(x.a, kOrder), _mm256_permute_ps(x.b, kOrder)};
}
OCTAVO_INLINE F32x16 max(F32x16 x, F32x16 y) {
  return {_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)};
}
OCTAVO_INLINE F32x16 min(F32x16 x, F32x16 y) {
  return {_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)};
}
OCTAVO_INLINE F32x16 abs(F32x16 x) {
  const __m256 mask = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff));
  return {_mm256_and_ps(x.a, mask), _mm256_and_ps(x.b, mask)};
}
OCTAVO_INLINE F32x16 select_less(F32x16 p, F32x16 q, F32x16 x, F32x16 y) {
  return {_mm256_blendv_ps(y.a, x.a, _mm256_cmp_ps(p.a, q.a, _CMP_LT_OQ)),
          _mm256_blendv_ps(y.b, x.b, _mm256_cmp_ps(p.b, q.b, _CMP_LT_OQ))};
}
OCTAVO_INLINE F32x16 keep_lanes(F32x16 x, int begin, int end, float other) {
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const auto kept = [lane](int first, int last) {
    return _mm256_castsi256_ps(
        _mm256_andnot_si256(_mm256_cmpgt_epi32(_mm256_set1_epi32(first), lane),
                            _mm256_cmpgt_epi32(_mm256_set1_epi32(last), lane)));
  };
  const __m256 outside = _mm256_set1_ps(other);
  return {_mm256_blendv_ps(outside, x.a, kept(begin, end)),
          _mm256_blendv_ps(outside, x.b, kept(begin - 8, end - 8))};
}
OCTAVO_INLINE F32x16 round_even(F32x16 x) {
  constexpr int kMode = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  return {_mm256_round_ps(x.a, kMode), _mm256_round_ps(x.b, kMode)};
}
OCTAVO_INLINE F32x16 to_f32(I32x16 x) { return {_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)}; }
OCTAVO_INLINE I32x16 to_i32(F32x16 x) { return {_mm256_cvtps_epi32(x.a), _mm256_cvtps_epi32(x.b)}; }
OCTAVO_INLINE I32x16 truncate(F32x16 x) {
  return {_mm256_cvttps_epi32(x.a), _mm256_cvttps_epi32(x.b)};
}
OCTAVO_INLINE F32x16 bits_to_f32(I32x16 x) {
  return {_mm256_castsi256_ps(x.a), _mm256_castsi256_ps(x.b)};
}
OCTAVO_INLINE I32x16 zero_i32() { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }
OCTAVO_INLINE I32x16 splat_i32(int32_t x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
OCTAVO_INLINE I32x16 load_i32(const int32_t* p) {
  const __m256i* q = reinterpret_cast<const __m256i*>(p);
  return {_mm256_loadu_si256(q), _mm256_loadu_si256(q + 1)};
}
OCTAVO_INLINE void store_i32(int32_t* p, I32x16 x) {
  __m256i* q = reinterpret_cast<__m256i*>(p);
  _mm256_storeu_si256(q, x.a);
  _mm256_storeu_si256(q + 1, x.b);
}
OCTAVO_INLINE I32x16 operator+(I32x16 x, I32x16 y) {
  return {_mm256_add_epi32(x.a, y.a), _mm256_add_epi32(x.b, y.b)};
}
OCTAVO_INLINE I32x16 operator-(I32x16 x, I32x16 y) {
  return {_mm256_sub_epi32(x.a, y.a), _mm256_sub_epi32(x.b, y.b)};
}
OCTAVO_INLINE I32x16 operator&(I32x16 x, I32x16 y) {
  return {_mm256_and_si256(x.a, y.a), _mm256_and_si256(x.b, y.b)};
}
template <int N>
OCTAVO_INLINE I32x16 shift_left(I32x16 x) {
  return {_mm256_slli_epi32(x.a, N), _mm256_slli_epi32(x.b, N)};
}
OCTAVO_INLINE I32x16 f32_bits(F32x16 x) {
  return {_mm256_castps_si256(x.a), _mm256_castps_si256(x.b)};
}
OCTAVO_INLINE I32x16 max(I32x16 x, I32x16 y) {
  return {_mm256_max_epi32(x.a, y.a), _mm256_max_epi32(x.b, y.b)};
}
OCTAVO_INLINE int32_t reduce_max(I32x16 x) {
  const __m256i m = _mm256_max_epi32(x.a, x.b);
  __m128i h = _mm_max_epi32(_mm256_castsi256_si128(m), _mm256_extracti128_si256(m, 1));
  h = _mm_max_epi32(h, _mm_shuffle_epi32(h, 0x4e));
  return _mm_cvtsi128_si32(_mm_max_epi32(h, _mm_shuffle_epi32(h, 0xb1)));
}
OCTAVO_INLINE int32_t reduce_sum(I32x16 x) {
  const __m256i m = _mm256_add_epi32(x.a, x.b);
  __m128i h = _mm_add_epi32(_mm256_castsi256_si128(m), _mm256_extracti128_si256(m, 1));
  h = _mm_add_epi32(h, _mm_shuffle_epi32(h, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(h, _mm_shuffle_epi32(h, 0xb1)));
}
OCTAVO_INLINE I32x16 load_i8(const int8_t* p) {
  const __m128i q = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return {_mm256_cvtepi8_epi32(q), _mm256_cvtepi8_epi32(_mm_srli_si128(q, 8))};
}
OCTAVO_INLINE I32x16 load_u8(const uint8_t* p) {
  const __m128i q = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return {_mm256_cvtepu8_epi32(q), _mm256_cvtepu8_epi32(_mm_srli_si128(q, 8))};
}
OCTAVO_INLINE void store_i8(int8_t* p, I32x16 x) {
  const __m128i lo = _mm_packs_epi32(_mm256_castsi256_si128(x.a), _mm256_extracti128_si256(x.a, 1));
  const __m128i hi = _mm_packs_epi32(_mm256_castsi256_si128(x.b), _mm256_extracti128_si256(x.b, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm_packs_epi16(lo, hi));
}

#endif

// sum = fma(x, splat(*factor), sum).
OCTAVO_INLINE void add_scaled(F32x16& sum, F32x16 x, const float* factor) {
#if defined(OCTAVO_AVX2)
  // As text, because the compiler would put sums where factors were and run out of registers.
  const __m256 all = _mm256_broadcast_ss(factor);
  asm("vfmadd231ps %1, %2, %0" : "+x"(sum.a) : "x"(x.a), "x"(all));
  asm("vfmadd231ps %1, %2, %0" : "+x"(sum.b) : "x"(x.b), "x"(all));
#else
  sum = fma(splat(*factor), x, sum);
#endif
}

// Reductions: lanes 0..15 folded in halves (8, 4, 2, 1), the same order on every level.
#if defined(OCTAVO_AVX512) || defined(OCTAVO_AVX2)
template <class Fold>
OCTAVO_INLINE float fold_lanes(F32x16 a, Fold fold) {
#if defined(OCTAVO_AVX512)
  const __m256 eight = fold(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
#else
  const __m256 eight = fold(a.a, a.b);
#endif
  const __m256 four = fold(eight, _mm256_permute2f128_ps(eight, eight, 1));
  const __m256 two = fold(four, _mm256_permute_ps(four, 0x4e));
  return _mm256_cvtss_f32(fold(two, _mm256_permute_ps(two, 0xb1)));
}
OCTAVO_INLINE float reduce_sum(F32x16 a) {
  return fold_lanes(a, [](__m256 x, __m256 y) { return _mm256_add_ps(x, y); });
}
OCTAVO_INLINE float reduce_max(F32x16 a) {
  return fold_lanes(a, [](__m256 x, __m256 y) { return _mm256_max_ps(x, y); });
}
#else
OCTAVO_INLINE float reduce_sum(F32x16 a) {
  alignas(64) float f[16];
  store(f, a);
  for (int half = 8; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) f[i] += f[i + half];
  }
  return f[0];
}
OCTAVO_INLINE float reduce_max(F32x16 a) {
  alignas(64) float f[16];
  store(f, a);
  for (int half = 8; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) f[i] = f[i] > f[i + half] ? f[i] : f[i + half];
  }
  return f[0];
}
#endif

// a * 2^n for whole numbers n that leave it a normal number.
OCTAVO_INLINE F32x16 times_power_of_two(F32x16 a, F32x16 n) {
#if defined(OCTAVO_AVX512)
  return {_mm512_scalef_ps(a.v, n.v)};
#else
  return a * bits_to_f32(shift_left<23>(to_i32(n) + splat_i32(127)));
#endif
}

// e^x, relative error below 2e-7 over the range of float; below about -87 it is 0; NaN stays NaN
// (max and min give their second operand where either is NaN).
// Range reduction to |r| <= ln2/2 and a degree-6 polynomial (Cephes expf coefficients).
OCTAVO_INLINE F32x16 exp(F32x16 x) {
  const F32x16 kLow = splat(-87.33f), kHigh = splat(88.37f);
  const F32x16 clamped = min(kHigh, max(kLow, x));
  const F32x16 n = round_even(clamped * splat(1.44269504088896341f));
  F32x16 r = fma(n, splat(-0.693359375f), clamped);
  r = fma(n, splat(2.12194440e-4f), r);
  F32x16 p = splat(1.9875691500e-4f);
  p = fma(p, r, splat(1.3981999507e-3f));
  p = fma(p, r, splat(8.3334519073e-3f));
  p = fma(p, r, splat(4.1665795894e-2f));
  p = fma(p, r, splat(1.6666665459e-1f));
  p = fma(p, r, splat(5.0000001201e-1f));
  p = fma(p, r * r, r + splat(1.0f));
  const I32x16 scale = shift_left<23>(to_i32(n) + splat_i32(127));
  return select_less(x, kLow, zero_f32(), p * bits_to_f32(scale));
}

// 1 / (1 + e^-x), without overflow at either end.
OCTAVO_INLINE F32x16 sigmoid(F32x16 x) {
  const F32x16 one = splat(1.0f);
  const F32x16 e = exp(zero_f32() - abs(x));
  return select_less(x, zero_f32(), e, one) / (one + e);
}

// Near 0 an odd polynomial (Cephes tanhf coefficients), where the form with exp would cancel.
OCTAVO_INLINE F32x16 tanh(F32x16 x) {
  const F32x16 z = x * x, one = splat(1.0f);
  F32x16 p = splat(-5.70498872745e-3f);
  p = fma(p, z, splat(2.06390887954e-2f));
  p = fma(p, z, splat(-5.37397155531e-2f));
  p = fma(p, z, splat(1.33314422036e-1f));
  p = fma(p, z, splat(-3.33332819422e-1f));
  const F32x16 near = fma(p * z, x, x);
  const F32x16 far = one - splat(2.0f) / (exp(x + x) + one);
  return select_less(abs(x), splat(0.625f), near, far);
}

}  // namespace octavo::OCTAVO_LEVEL
