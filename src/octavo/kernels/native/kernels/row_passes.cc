// One level's passes over a row of logits. Plain loops over fixed lanes, which the compiler turns
// into vectors; knows nothing of sampling.
#include "octavo/row_passes.h"

#include <cmath>
#include <cstring>

#include "kernels/kernels.h"
#include "simd/vec.h"

namespace octavo::OCTAVO_LEVEL {

namespace {

constexpr int64_t kSumLanes = 8;

// `max` returns its second operand when the first is NaN, so NaN never enters.
float block_maximum(const float* logits, int64_t count) {
  F32x16 lanes = splat(-INFINITY);
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) lanes = max(load(logits + i), lanes);
  float best = reduce_max(lanes);
  for (; i < count; ++i) best = logits[i] > best ? logits[i] : best;
  return best;
}

float block_maxima(const float* logits, int64_t count, float* maxima) {
  float best = -INFINITY;
  for (int64_t i = 0; i < count; i += kLogitBlock) {
    const int64_t rest = count - i;
    const float block = block_maximum(logits + i, rest < kLogitBlock ? rest : kLogitBlock);
    maxima[i / kLogitBlock] = block;
    best = block > best ? block : best;
  }
  return best;
}

void scale(const float* logits, int64_t count, float divisor, float* scaled) {
  for (int64_t i = 0; i < count; ++i) {
    const float x = logits[i] / divisor;
    scaled[i] = x == x ? x : -INFINITY;
  }
}

// e^x for kLogMinWeight <= x <= 0: x = n ln2 + r, |r| <= ln2/2, and the Taylor sum of e^r to
// degree 12.
OCTAVO_INLINE double exponential(double x) {
  constexpr double kRound = 0x1.8p52;  // adding it leaves the nearest integer in the low bits
  const double shifted = x * 1.4426950408889634 + kRound;
  const double n = shifted - kRound;
  // ln2 in two parts; n times the first is exact.
  const double r = (x - n * 6.93147180369123816490e-01) - n * 1.90821492927058770002e-10;
  double p = 1.0 / 479001600;
  p = p * r + 1.0 / 39916800;
  p = p * r + 1.0 / 3628800;
  p = p * r + 1.0 / 362880;
  p = p * r + 1.0 / 40320;
  p = p * r + 1.0 / 5040;
  p = p * r + 1.0 / 720;
  p = p * r + 1.0 / 120;
  p = p * r + 1.0 / 24;
  p = p * r + 1.0 / 6;
  p = p * r + 0.5;
  p = p * r + 1.0;
  p = p * r + 1.0;
  uint64_t bits;
  std::memcpy(&bits, &shifted, 8);
  bits = (bits + 1023) << 52;  // the exponent of 2^n; all above the integer is shifted out
  double power;
  std::memcpy(&power, &bits, 8);
  return p * power;
}

double weights(const float* logits, int64_t count, float max, double log_min, double* out) {
  const double top = max;
  for (int64_t i = 0; i < count; ++i) {
    const double x = static_cast<double>(logits[i]) - top;
    const double y = exponential(x > log_min ? x : log_min);
    out[i] = x >= log_min ? y : 0.0;
  }
  for (int64_t i = count; i % kSumLanes != 0; ++i) out[i] = 0.0;
  double lanes[kSumLanes] = {};
  for (int64_t i = 0; i < count; i += kSumLanes) {
    for (int64_t j = 0; j < kSumLanes; ++j) lanes[j] += out[i + j];
  }
  return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) +
         ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

int64_t count_before(const float* logits, int64_t count, int64_t id) {
  const float value = logits[id] == logits[id] ? logits[id] : -INFINITY;
  int64_t before = 0;
  for (int64_t i = 0; i < id; ++i) before += !(logits[i] < value) && (logits[i] == logits[i]);
  for (int64_t i = id + 1; i < count; ++i) before += logits[i] > value;
  // NaN before `id` ties with it when it is -inf itself.
  if (value == -INFINITY) {
    for (int64_t i = 0; i < id; ++i) before += logits[i] != logits[i];
  }
  return before;
}

}  // namespace

const RowPasses& row_passes() {
  static constexpr RowPasses kPasses{block_maxima, scale, weights, count_before};
  return kPasses;
}

}  // namespace octavo::OCTAVO_LEVEL
