// Sixteen lanes as four of the compiler's own 128-bit vectors: SSE2 where nothing is known of an
// x86 processor, NEON on Arm. Included by simd/vec.h alone, which documents the operations.
#pragma once

#include <cstdint>
#include <cstring>

#include "formats/half.h"

#if defined(OCTAVO_NEON)
#include <arm_neon.h>
#endif

namespace octavo::OCTAVO_LEVEL {

typedef float F32x4 __attribute__((vector_size(16)));
typedef int32_t I32x4 __attribute__((vector_size(16)));

struct F32x16 {
  F32x4 q[4];
};
struct I32x16 {
  I32x4 q[4];
};

// {f(0) .. f(3)}
template <class Sixteen, class Quarter>
OCTAVO_INLINE Sixteen quarters(Quarter f) {
  return {{f(0), f(1), f(2), f(3)}};
}
template <class To, class From>
OCTAVO_INLINE To as_bits(From x) {
  static_assert(sizeof(To) == sizeof(From));
  To y;
  std::memcpy(&y, &x, sizeof(y));
  return y;
}
template <class Vector>
OCTAVO_INLINE Vector load_vector(const void* p) {
  Vector x;
  std::memcpy(&x, p, sizeof(x));
  return x;
}

OCTAVO_INLINE F32x16 splat(float x) {
  return quarters<F32x16>([=](int) { return F32x4{x, x, x, x}; });
}
OCTAVO_INLINE F32x16 zero_f32() { return splat(0.0f); }
OCTAVO_INLINE F32x16 load(const float* p) {
  return quarters<F32x16>([=](int i) { return load_vector<F32x4>(p + 4 * i); });
}
OCTAVO_INLINE void store(float* p, F32x16 a) { std::memcpy(p, &a, sizeof(a)); }
OCTAVO_INLINE F32x16 operator+(F32x16 a, F32x16 b) {
  return quarters<F32x16>([&](int i) { return a.q[i] + b.q[i]; });
}
OCTAVO_INLINE F32x16 operator-(F32x16 a, F32x16 b) {
  return quarters<F32x16>([&](int i) { return a.q[i] - b.q[i]; });
}
OCTAVO_INLINE F32x16 operator*(F32x16 a, F32x16 b) {
  return quarters<F32x16>([&](int i) { return a.q[i] * b.q[i]; });
}
OCTAVO_INLINE F32x16 operator/(F32x16 a, F32x16 b) {
  return quarters<F32x16>([&](int i) { return a.q[i] / b.q[i]; });
}
OCTAVO_INLINE F32x16 fma(F32x16 a, F32x16 b, F32x16 c) {
#if defined(OCTAVO_NEON)
  return quarters<F32x16>([&](int i) { return vfmaq_f32(c.q[i], a.q[i], b.q[i]); });
#else  // Not fused: a processor without the instruction would call a slow library function.
  return quarters<F32x16>([&](int i) { return a.q[i] * b.q[i] + c.q[i]; });
#endif
}
template <int K>
OCTAVO_INLINE F32x16 swap_lanes(F32x16 a) {
  return quarters<F32x16>([&](int i) {
    const F32x4 x = a.q[K < 4 ? i : i ^ (K / 4)];
    constexpr int k = K % 4;
    return F32x4{x[0 ^ k], x[1 ^ k], x[2 ^ k], x[3 ^ k]};
  });
}
OCTAVO_INLINE F32x16 max(F32x16 a, F32x16 b) {
  return quarters<F32x16>([&](int i) { return a.q[i] > b.q[i] ? a.q[i] : b.q[i]; });
}
OCTAVO_INLINE F32x16 min(F32x16 a, F32x16 b) {
  return quarters<F32x16>([&](int i) { return a.q[i] < b.q[i] ? a.q[i] : b.q[i]; });
}
OCTAVO_INLINE I32x16 f32_bits(F32x16 a) { return as_bits<I32x16>(a); }
OCTAVO_INLINE F32x16 bits_to_f32(I32x16 a) { return as_bits<F32x16>(a); }
OCTAVO_INLINE F32x16 abs(F32x16 a) {
  return quarters<F32x16>(
      [&](int i) { return as_bits<F32x4>(as_bits<I32x4>(a.q[i]) & 0x7fffffff); });
}
OCTAVO_INLINE F32x16 select_less(F32x16 a, F32x16 b, F32x16 x, F32x16 y) {
  return quarters<F32x16>([&](int i) { return a.q[i] < b.q[i] ? x.q[i] : y.q[i]; });
}
OCTAVO_INLINE F32x16 keep_lanes(F32x16 a, int begin, int end, float other) {
  const F32x4 outside = {other, other, other, other};
  return quarters<F32x16>([&](int i) {
    const I32x4 lane = I32x4{0, 1, 2, 3} + 4 * i;
    return ((lane >= begin) & (lane < end)) ? a.q[i] : outside;
  });
}
OCTAVO_INLINE F32x4 round_even_quarter(F32x4 x) {
#if defined(OCTAVO_NEON)
  return vrndnq_f32(x);
#else
  // From 2^23 on all numbers are whole; below, adding it rounds to the last bit that it keeps.
  constexpr float kWhole = 0x1p23f;
  const I32x4 bits = as_bits<I32x4>(x), sign = bits & INT32_MIN;
  const F32x4 magnitude = as_bits<F32x4>(bits ^ sign), rounded = (magnitude + kWhole) - kWhole;
  return magnitude < kWhole ? as_bits<F32x4>(as_bits<I32x4>(rounded) | sign) : x;
#endif
}
OCTAVO_INLINE F32x16 round_even(F32x16 a) {
  return quarters<F32x16>([&](int i) { return round_even_quarter(a.q[i]); });
}
OCTAVO_INLINE F32x16 to_f32(I32x16 a) {
  return quarters<F32x16>([&](int i) { return __builtin_convertvector(a.q[i], F32x4); });
}
OCTAVO_INLINE I32x16 to_i32(F32x16 a) {
  return quarters<I32x16>(
      [&](int i) { return __builtin_convertvector(round_even_quarter(a.q[i]), I32x4); });
}
OCTAVO_INLINE I32x16 truncate(F32x16 a) {
  return quarters<I32x16>([&](int i) { return __builtin_convertvector(a.q[i], I32x4); });
}
OCTAVO_INLINE I32x16 splat_i32(int32_t x) {
  return quarters<I32x16>([=](int) { return I32x4{x, x, x, x}; });
}
OCTAVO_INLINE I32x16 zero_i32() { return splat_i32(0); }
OCTAVO_INLINE I32x16 load_i32(const int32_t* p) {
  return quarters<I32x16>([=](int i) { return load_vector<I32x4>(p + 4 * i); });
}
OCTAVO_INLINE void store_i32(int32_t* p, I32x16 a) { std::memcpy(p, &a, sizeof(a)); }
OCTAVO_INLINE I32x16 operator+(I32x16 a, I32x16 b) {
  return quarters<I32x16>([&](int i) { return a.q[i] + b.q[i]; });
}
OCTAVO_INLINE I32x16 operator-(I32x16 a, I32x16 b) {
  return quarters<I32x16>([&](int i) { return a.q[i] - b.q[i]; });
}
OCTAVO_INLINE I32x16 operator&(I32x16 a, I32x16 b) {
  return quarters<I32x16>([&](int i) { return a.q[i] & b.q[i]; });
}
template <int N>
OCTAVO_INLINE I32x16 shift_left(I32x16 a) {
  return quarters<I32x16>([&](int i) { return a.q[i] << N; });
}
OCTAVO_INLINE I32x16 max(I32x16 a, I32x16 b) {
  return quarters<I32x16>([&](int i) { return a.q[i] > b.q[i] ? a.q[i] : b.q[i]; });
}
OCTAVO_INLINE int32_t reduce_max(I32x16 a) {
  const auto greater = [](I32x4 x, I32x4 y) { return x > y ? x : y; };
  const I32x4 m = greater(greater(a.q[0], a.q[1]), greater(a.q[2], a.q[3]));
  const int32_t low = m[0] > m[1] ? m[0] : m[1], high = m[2] > m[3] ? m[2] : m[3];
  return low > high ? low : high;
}
OCTAVO_INLINE int32_t reduce_sum(I32x16 a) {
  const I32x4 s = (a.q[0] + a.q[1]) + (a.q[2] + a.q[3]);
  return (s[0] + s[1]) + (s[2] + s[3]);
}

// Four numbers of a narrow type, widened.
template <class Narrow>
OCTAVO_INLINE I32x4 widen_four(const Narrow* p) {
  return I32x4{p[0], p[1], p[2], p[3]};
}
OCTAVO_INLINE I32x16 load_i8(const int8_t* p) {
  return quarters<I32x16>([=](int i) { return widen_four(p + 4 * i); });
}
OCTAVO_INLINE I32x16 load_u8(const uint8_t* p) {
  return quarters<I32x16>([=](int i) { return widen_four(p + 4 * i); });
}
OCTAVO_INLINE void store_i8(int8_t* p, I32x16 a) {
  for (int i = 0; i < 16; ++i) {
    const int32_t x = a.q[i / 4][i % 4];
    p[i] = static_cast<int8_t>(x > 127 ? 127 : x < -128 ? -128 : x);
  }
}

OCTAVO_INLINE F32x16 load_f16(const uint16_t* p) {
  return quarters<F32x16>([=](int i) {
#if defined(OCTAVO_NEON)
    return vcvt_f32_f16(load_vector<float16x4_t>(p + 4 * i));
#else  // as f16_to_f32
    const I32x4 h = widen_four(p + 4 * i), magnitude = (h & 0x7fff) << 13;
    const I32x4 bits = as_bits<I32x4>(as_bits<F32x4>(magnitude) * 0x1p112f);
    const I32x4 special = (magnitude >= 0x0f800000) & 0x7f800000;  // infinity and NaN
    return as_bits<F32x4>(bits | special | (h & 0x8000) << 16);
#endif
  });
}
OCTAVO_INLINE F32x16 load_bf16(const uint16_t* p) {
  return quarters<F32x16>([=](int i) { return as_bits<F32x4>(widen_four(p + 4 * i) << 16); });
}
OCTAVO_INLINE void store_f16(uint16_t* p, F32x16 a) {
  for (int i = 0; i < 16; ++i) p[i] = f32_to_f16(a.q[i / 4][i % 4]);
}
OCTAVO_INLINE void store_bf16(uint16_t* p, F32x16 a) {
  for (int i = 0; i < 16; ++i) p[i] = f32_to_bf16(a.q[i / 4][i % 4]);
}

}  // namespace octavo::OCTAVO_LEVEL
