// Integer dot products with 128-bit vectors: plain C++ for any processor, and Arm's dot-product
// instruction. Included by simd/dot.h alone, which documents the operations.
#pragma once

#include <cstddef>
#include <cstdint>

#include "simd/vec.h"

namespace octavo::OCTAVO_LEVEL {

typedef int16_t I16x8 __attribute__((vector_size(16)));
typedef uint8_t U8x16 __attribute__((vector_size(16)));

struct U8x64 {
  U8x16 q[4];
};

OCTAVO_INLINE U8x64 load_line(const std::byte* p) {
  return quarters<U8x64>([=](int i) { return load_vector<U8x16>(p + 16 * i); });
}
OCTAVO_INLINE U8x64 low_nibbles(U8x64 x) {
  return quarters<U8x64>([&](int i) { return x.q[i] & 15; });
}
OCTAVO_INLINE U8x64 high_nibbles(U8x64 x) {
  return quarters<U8x64>([&](int i) { return x.q[i] >> 4; });
}
template <int kShift, int kMask>
OCTAVO_INLINE U8x64 with_upper_bits(U8x64 code, U8x64 upper) {
  constexpr int kRight = kShift > 0 ? kShift : 0, kLeft = kShift < 0 ? -kShift : 0;
  return quarters<U8x64>([&](int i) {
    return code.q[i] | ((upper.q[i] >> kRight << kLeft) & static_cast<uint8_t>(kMask));
  });
}

// Codes of 8 bits become signed by the subtraction of kDotZeroPoint; shorter ones are so already.
template <int kBits>
OCTAVO_INLINE U8x16 signed_codes(U8x16 codes) {
  return kBits == 8 ? codes ^ static_cast<uint8_t>(0x80) : codes;
}

#if defined(OCTAVO_DOTPROD)
template <int kBits>
OCTAVO_INLINE I32x16 dot(I32x16 acc, U8x64 codes, const std::byte* quad) {
  const int8x16_t a = as_bits<int8x16_t>(vdupq_n_s32(load_word(quad)));
  return quarters<I32x16>([&](int i) {
    return vdotq_s32(acc.q[i], as_bits<int8x16_t>(signed_codes<kBits>(codes.q[i])), a);
  });
}
#else
// Of each column two sums: of the products of its even bytes with those of the quad, plus odd ones.
struct ShortSums {
  I16x8 q[4];
};
// Bytes 0 and 2, or 1 and 3, of each 32-bit word, widened.
OCTAVO_INLINE I16x8 even_bytes(I16x8 words) { return (words << 8) >> 8; }
OCTAVO_INLINE I16x8 odd_bytes(I16x8 words) { return words >> 8; }
template <int kBits>
OCTAVO_INLINE ShortSums add_products(ShortSums sums, U8x64 codes, const std::byte* quad) {
  const int32_t word = load_word(quad);
  const I16x8 a = as_bits<I16x8>(I32x4{word, word, word, word});
  const I16x8 even = even_bytes(a), odd = odd_bytes(a);
  return quarters<ShortSums>([&](int i) {
    const I16x8 c = as_bits<I16x8>(signed_codes<kBits>(codes.q[i]));
    return sums.q[i] + even_bytes(c) * even + odd_bytes(c) * odd;
  });
}
template <int kBits>
OCTAVO_INLINE ShortSums products(U8x64 codes, const std::byte* quad) {
  return add_products<kBits>({}, codes, quad);
}
OCTAVO_INLINE I32x16 widen(ShortSums sums) {
  return quarters<I32x16>([&](int i) {
    const I32x4 pairs = as_bits<I32x4>(sums.q[i]);
    return ((pairs << 16) >> 16) + (pairs >> 16);
  });
}
OCTAVO_INLINE I32x16 add_widened(I32x16 acc, ShortSums sums) { return acc + widen(sums); }
#endif

}  // namespace octavo::OCTAVO_LEVEL
