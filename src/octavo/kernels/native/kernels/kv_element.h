// The number types of key/value pages, their conversion to and from vectors of float, and where in
// a page they lie.
#pragma once

#include <cstdint>

#include "octavo/types.h"
#include "simd/vec.h"

namespace octavo::OCTAVO_LEVEL {

struct Half {
  uint16_t bits;
};
struct BFloat {
  uint16_t bits;
};
// What the token's scale makes a number of.
struct Code {
  int8_t value;
};
template <class T>
inline constexpr DType kElement = DType::kF32;
template <>
inline constexpr DType kElement<Half> = DType::kF16;
template <>
inline constexpr DType kElement<BFloat> = DType::kBF16;
template <>
inline constexpr DType kElement<Code> = DType::kI8;
template <class T>
inline constexpr bool kHasScales = kElement<T> == DType::kI8;

OCTAVO_INLINE F32x16 load_line(const float* p) { return load(p); }
OCTAVO_INLINE F32x16 load_line(const Half* p) { return load_f16(&p->bits); }
OCTAVO_INLINE F32x16 load_line(const BFloat* p) { return load_bf16(&p->bits); }
OCTAVO_INLINE F32x16 load_line(const Code* p) { return to_f32(load_i8(&p->value)); }
OCTAVO_INLINE void store_line(float* p, F32x16 a) { store(p, a); }
OCTAVO_INLINE void store_line(Half* p, F32x16 a) { store_f16(&p->bits, a); }
OCTAVO_INLINE void store_line(BFloat* p, F32x16 a) { store_bf16(&p->bits, a); }

// body(T*) with T the element type of the layer; the pointer (null) only carries the type.
template <class Body>
OCTAVO_INLINE void with_element(DType dtype, Body body) {
  if (dtype == DType::kF32) {
    body(static_cast<float*>(nullptr));
  } else if (dtype == DType::kF16) {
    body(static_cast<Half*>(nullptr));
  } else if (dtype == DType::kBF16) {
    body(static_cast<BFloat*>(nullptr));
  } else {
    body(static_cast<Code*>(nullptr));
  }
}

// Keys [head_dim][kPageTokens] and values [kPageTokens][head_dim] of one head in one page, each
// followed by its scales if it has any.
template <class T>
struct PageHead {
  T* keys;
  T* values;
};
// [kPageTokens], behind the keys or the values of a page.
OCTAVO_INLINE float* scales_of(Code* half, int64_t head_dim) {
  return reinterpret_cast<float*>(half + head_dim * kPageTokens);
}
OCTAVO_INLINE const float* scales_of(const Code* half, int64_t head_dim) {
  return reinterpret_cast<const float*>(half + head_dim * kPageTokens);
}
template <class T>
OCTAVO_INLINE PageHead<T> page_head(const KvLayer& kv, int64_t page, int64_t head) {
  const int64_t half = page_half_bytes(kElement<T>, kv.head_dim);
  std::byte* const keys = kv.data + page * kv.page_bytes + head * 2 * half;
  return {reinterpret_cast<T*>(keys), reinterpret_cast<T*>(keys + half)};
}

}  // namespace octavo::OCTAVO_LEVEL
