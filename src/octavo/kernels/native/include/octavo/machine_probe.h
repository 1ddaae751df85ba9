// What measures the machine's own limits at one instruction-set level: plain reading and plain
// arithmetic, with nothing around them. A model can come near these rates, not beyond.
#pragma once

#include <cstddef>
#include <cstdint>

namespace octavo {

// A read covers a multiple of this many bytes.
inline constexpr int64_t kProbeReadBytes = 512;

// An addition and a multiplication are two operations.
struct MachineProbe {
  // The sum of all 32-bit words at `data`, so that none can be left unread.
  int32_t (*read)(const std::byte* data, int64_t bytes);
  // `rounds` rounds of independent products that stay in registers. The results depend on all.
  int32_t (*dot_int8)(int64_t rounds);
  float (*multiply_add_f32)(int64_t rounds);
  float (*dot_bf16)(int64_t rounds);  // null where the level multiplies bfloat16 as float32
  int64_t int8_operations_per_round;
  int64_t f32_operations_per_round;
  int64_t bf16_operations_per_round;
};

}  // namespace octavo
