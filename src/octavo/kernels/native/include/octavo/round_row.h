// Rounding a row of float weights to another type, compiled once per instruction-set level: to the
// same bits on each. Knows nothing of packing or of files.
#pragma once

#include <cstddef>
#include <cstdint>

#include "octavo/types.h"

namespace octavo {

// The quantised types that float weights can be rounded to.
constexpr bool can_quantize(WeightFormat target) {
  return target == WeightFormat::kQ8_0 || target == WeightFormat::kQ4_0 ||
         target == WeightFormat::kQ4_1 || target == WeightFormat::kQ4_K;
}

// `count` values (a whole number of blocks) to blocks of `target`, as a GGUF file holds them:
// F32, F16 and BF16 (to nearest, ties to even), or a type of can_quantize. Q8_0 and Q4_0 as ggml's
// reference quantisers, bit for bit; Q4_1 and Q4_K with scale and minimum of each group sought for
// the least weighted squared error. A group with a NaN or an infinity in it becomes NaN as a whole.
using RoundRow = void (*)(WeightFormat target, const float* values, int64_t count,
                          std::byte* blocks);

}  // namespace octavo
