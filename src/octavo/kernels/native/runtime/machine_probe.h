// The machine's limits with all threads of a pool at work: memory bandwidth and arithmetic rates.
#pragma once

#include <cstdint>

#include "octavo/machine_probe.h"
#include "runtime/thread_pool.h"

namespace octavo {

// Bytes per second at which the pool's threads together read `bytes` of memory, each its own part.
// The best of `passes`. Throws std::invalid_argument unless both are positive.
double read_rate(ThreadPool& pool, const MachineProbe& probe, int64_t bytes, int passes);

struct ArithmeticRates {
  double int8_operations_per_second;
  double f32_operations_per_second;
  double bf16_operations_per_second;  // the float32 rate where the level multiplies it as such
};

// The best of `passes` of about `seconds` each. Throws std::invalid_argument as above.
ArithmeticRates arithmetic_rates(ThreadPool& pool, const MachineProbe& probe, double seconds,
                                 int passes);

}  // namespace octavo
