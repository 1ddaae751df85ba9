// Rounding float rows to GGUF's quantised tensor types. Knows nothing of packing or of files.
#pragma once

#include <cstddef>
#include <cstdint>

#include "octavo/types.h"

namespace octavo {

// Whether float values can be rounded to this type here: Q8_0, Q4_0, Q4_1 and Q4_K.
bool can_quantize(WeightFormat target);

// `count` values (a whole number of blocks) to blocks of `target`. Q8_0 and Q4_0 as ggml's
// reference quantisers, bit for bit; Q4_1 and Q4_K with scale and minimum of each group sought for
// the least weighted squared error. A group with a NaN or an infinity in it becomes NaN as a whole.
void quantize_row(WeightFormat target, const float* values, int64_t count, std::byte* blocks);

}  // namespace octavo
