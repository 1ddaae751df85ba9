// Pairs of bfloat16: weights widened to float32 on every level, and, where the processor has the
// instruction, dot products of pairs summed in float32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "simd/vec.h"

namespace octavo::OCTAVO_LEVEL {

// A line holds a pair of k's for each of sixteen columns: the even k in the low halves. Exact.
OCTAVO_INLINE F32x16 even_bf16(I32x16 line) { return bits_to_f32(shift_left<16>(line)); }
OCTAVO_INLINE F32x16 odd_bf16(I32x16 line) {
  return bits_to_f32(line & splat_i32(static_cast<int32_t>(0xffff0000)));
}

// 32 floats to a line of bfloat16, to nearest, ties to even.
OCTAVO_INLINE void store_bf16_line(std::byte* line, F32x16 first, F32x16 last) {
#if defined(OCTAVO_LEVEL_avx512_bf16)
  const __m512bh rounded = _mm512_cvtne2ps_pbh(last.v, first.v);  // subnormals become 0
  std::memcpy(line, &rounded, sizeof(rounded));
#else
  uint16_t* const halves = reinterpret_cast<uint16_t*>(line);
  store_bf16(halves, first);
  store_bf16(halves + kLanes, last);
#endif
}

#if defined(OCTAVO_LEVEL_avx512_bf16)

inline constexpr bool kHasBf16Dot = true;

// acc[column] += the two products of a pair of activations at `pair` and a pair of weights.
// Products are exact; the instruction rounds its sums to nearest and takes subnormals as 0,
// whatever the processor's mode.
OCTAVO_INLINE F32x16 dot_bf16(F32x16 acc, I32x16 line, const std::byte* pair) {
  // As text, because the compiler would broadcast the pair into a register of its own.
  asm("vdpbf16ps %2%{1to16%}, %1, %0"
      : "+v"(acc.v)
      : "v"(line.v), "m"(*reinterpret_cast<const int32_t*>(pair)));
  return acc;
}

#else

inline constexpr bool kHasBf16Dot = false;

#endif

}  // namespace octavo::OCTAVO_LEVEL
