// Applies a function of vectors to arrays of any length. Knows nothing of operands or workers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "simd/vec.h"

namespace octavo::OCTAVO_LEVEL {

// The first `count` (< 16) floats at p, zeros behind them.
inline F32x16 load_part(const float* p, int64_t count) {
  alignas(64) float lanes[kLanes] = {};
  std::memcpy(lanes, p, static_cast<size_t>(count) * sizeof(float));
  return load(lanes);
}
inline void store_part(float* p, F32x16 a, int64_t count) {
  alignas(64) float lanes[kLanes];
  store(lanes, a);
  std::memcpy(p, lanes, static_cast<size_t>(count) * sizeof(float));
}

// y[i] = function(x[i]...) for i < count. y may be one of the x.
template <class Function, class... Inputs>
OCTAVO_INLINE void apply(int64_t count, Function function, float* y, const Inputs*... x) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) store(y + i, function(load(x + i)...));
  if (i < count) store_part(y + i, function(load_part(x + i, count - i)...), count - i);
}

}  // namespace octavo::OCTAVO_LEVEL
