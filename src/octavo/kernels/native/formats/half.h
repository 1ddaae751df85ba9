// fp16 and bf16 to float32 and back, in plain C++ for any processor. Always inlined, because
// sources compiled for different instruction sets include it and must not share its code.
#pragma once

#include <cstdint>
#include <cstring>

namespace octavo {

#define OCTAVO_HALF_INLINE inline __attribute__((always_inline))

OCTAVO_HALF_INLINE float float_from_bits(uint32_t bits) {
  float f;
  std::memcpy(&f, &bits, 4);
  return f;
}
OCTAVO_HALF_INLINE uint32_t bits_from_float(float f) {
  uint32_t bits;
  std::memcpy(&bits, &f, 4);
  return bits;
}

// Exact. The product moves the exponent's bias from 15 to 127, subnormals included.
OCTAVO_HALF_INLINE float f16_to_f32(uint16_t h) {
  const uint32_t magnitude = static_cast<uint32_t>(h & 0x7fff) << 13;
  uint32_t bits = bits_from_float(float_from_bits(magnitude) * 0x1p112f);
  bits |= magnitude >= 0x0f800000 ? 0x7f800000 : 0;  // infinity and NaN
  return float_from_bits(bits | (static_cast<uint32_t>(h & 0x8000) << 16));
}
OCTAVO_HALF_INLINE float bf16_to_f32(uint16_t h) {
  return float_from_bits(static_cast<uint32_t>(h) << 16);
}

// Round to nearest, ties to even; NaN stays NaN.
OCTAVO_HALF_INLINE uint16_t f32_to_f16(float f) {
  uint32_t bits = bits_from_float(f);
  const uint32_t sign = (bits >> 16) & 0x8000;
  bits &= 0x7fffffff;
  if (bits > 0x7f800000) return static_cast<uint16_t>(sign | 0x7e00);
  if (bits >= 0x477ff000) return static_cast<uint16_t>(sign | 0x7c00);  // rounds to 2^16 or more
  if (bits < 0x38800000) {  // subnormal: adding 0.5 puts the last bit in its place
    const uint32_t shifted = bits_from_float(float_from_bits(bits) + 0.5f);
    return static_cast<uint16_t>(sign | (shifted - 0x3f000000));
  }
  bits += 0xfff + ((bits >> 13) & 1);
  return static_cast<uint16_t>(sign | ((bits - (112u << 23)) >> 13));
}
OCTAVO_HALF_INLINE uint16_t f32_to_bf16(float f) {
  const uint32_t bits = bits_from_float(f);
  if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

}  // namespace octavo
