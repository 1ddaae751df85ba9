// The number types of key/value pages, and their conversion to and from vectors of float.
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

OCTAVO_INLINE F32x16 load_line(const float* p) { return load(p); }
OCTAVO_INLINE F32x16 load_line(const Half* p) { return load_f16(&p->bits); }
OCTAVO_INLINE F32x16 load_line(const BFloat* p) { return load_bf16(&p->bits); }
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
  } else {
    body(static_cast<BFloat*>(nullptr));
  }
}

// Keys [head_dim][kPageTokens] and values [kPageTokens][head_dim] of one head in one page.
template <class T>
struct PageHead {
  T* keys;
  T* values;
};
template <class T>
OCTAVO_INLINE PageHead<T> page_head(const KvLayer& kv, int64_t page, int64_t head) {
  const int64_t half = static_cast<int64_t>(kv.head_dim) * kPageTokens;
  T* keys = reinterpret_cast<T*>(kv.data + page * kv.page_bytes) + head * 2 * half;
  return {keys, keys + half};
}

}  // namespace octavo::OCTAVO_LEVEL
