// The number types of key/value pages, their conversion to and from vectors of float, and where in
// a page they lie.
#pragma once

#include <cstdint>

#include "octavo/types.h"
#include "simd/pairs.h"
#include "simd/vec.h"

namespace octavo::OCTAVO_LEVEL {

struct Half {
  uint16_t bits;
};
struct BFloat {
  uint16_t bits;
};
// What the token's scale makes a number of.
template <class Integer>
struct Code {
  Integer value;
};
using Code8 = Code<int8_t>;
using Code16 = Code<int16_t>;

template <class T>
inline constexpr DType kElement = DType::kF32;
template <>
inline constexpr DType kElement<Half> = DType::kF16;
template <>
inline constexpr DType kElement<BFloat> = DType::kBF16;
template <>
inline constexpr DType kElement<Code8> = DType::kI8;
template <>
inline constexpr DType kElement<Code16> = DType::kI16;
template <class T>
inline constexpr bool kHasScales = has_scales(kElement<T>);

OCTAVO_INLINE F32x16 load_line(const float* p) { return load(p); }
OCTAVO_INLINE F32x16 load_line(const Half* p) { return load_f16(&p->bits); }
OCTAVO_INLINE F32x16 load_line(const BFloat* p) { return load_bf16(&p->bits); }
OCTAVO_INLINE void store_line(float* p, F32x16 a) { store(p, a); }
OCTAVO_INLINE void store_line(Half* p, F32x16 a) { store_f16(&p->bits, a); }
OCTAVO_INLINE void store_line(BFloat* p, F32x16 a) { store_bf16(&p->bits, a); }

OCTAVO_INLINE void store_codes(int8_t* p, I32x16 a) { store_i8(p, a); }
OCTAVO_INLINE void store_codes(int16_t* p, I32x16 a) { store_i16(p, a); }

// What codes of values may be at most, kGreatestWeight those of softmax weights and kLongestVector
// the length of a query's and an int16 key's codes: so many that no sum of attention leaves 32 bits
// (kernels/attention_integer.h). 13 bits, sign included, with a scale of each vector are as precise
// as float16 is.
template <class T>
inline constexpr float kGreatestCode = 4095.0f;
template <>
inline constexpr float kGreatestCode<Code8> = 127.0f;
inline constexpr float kGreatestWeight = 16383.0f;
inline constexpr float kLongestVector = 32767.0f;

// What queries that meet such keys are kept as.
template <class T>
struct QueryElementOf {
  using Type = float;
};
template <class Integer>
struct QueryElementOf<Code<Integer>> {
  using Type = int16_t;
};
template <class T>
using QueryElement = typename QueryElementOf<T>::Type;

// body(T*) with T the element type of the layer; the pointer (null) only carries the type.
template <class Body>
OCTAVO_INLINE void with_element(DType dtype, Body body) {
  if (dtype == DType::kF32) {
    body(static_cast<float*>(nullptr));
  } else if (dtype == DType::kF16) {
    body(static_cast<Half*>(nullptr));
  } else if (dtype == DType::kBF16) {
    body(static_cast<BFloat*>(nullptr));
  } else if (dtype == DType::kI16) {
    body(static_cast<Code16*>(nullptr));
  } else {
    body(static_cast<Code8*>(nullptr));
  }
}

// Keys and values of one head in one page, laid out as octavo/types.h says.
template <class T>
struct PageHead {
  T* keys;
  T* values;
};
// [kPageTokens], behind the keys or the values of a page.
template <class Integer>
OCTAVO_INLINE float* scales_of(Code<Integer>* half, int64_t head_dim) {
  return reinterpret_cast<float*>(half + head_dim * kPageTokens);
}
template <class Integer>
OCTAVO_INLINE const float* scales_of(const Code<Integer>* half, int64_t head_dim) {
  return reinterpret_cast<const float*>(half + head_dim * kPageTokens);
}
template <class T>
OCTAVO_INLINE PageHead<T> page_head(const KvLayer& kv, int64_t page, int64_t head) {
  const int64_t half = page_half_bytes(kElement<T>, kv.head_dim);
  std::byte* const keys = kv.data + page * kv.page_bytes + head * 2 * half;
  return {reinterpret_cast<T*>(keys), reinterpret_cast<T*>(keys + half)};
}

}  // namespace octavo::OCTAVO_LEVEL
