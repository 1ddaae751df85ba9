// Kernels that treat every element, or every row, by itself: `add`, `softcap`, `gated_activation`
// and `gather_rows`.
#include <cstring>

#include "kernels/activation_function.h"
#include "kernels/elementwise.h"
#include "kernels/rows.h"
#include "octavo/program.h"

namespace octavo::OCTAVO_LEVEL {

void add(const KernelCall& call) {
  const Operand& a = call.instruction.inputs[0];
  const Operand& b = call.instruction.inputs[1];
  const Operand& y = call.instruction.outputs[0];
  for_spans(call, y.width, [&](int64_t row, int64_t column, int64_t count) {
    apply(
        count, [](F32x16 left, F32x16 right) { return left + right; },
        call.row<float>(y, row) + column, call.row<float>(a, row) + column,
        call.row<float>(b, row) + column);
  });
}

void softcap(const KernelCall& call) {
  const Operand& x = call.instruction.outputs[0];
  const F32x16 cap = splat(call.instruction.floats[0]);
  for_spans(call, x.width, [&](int64_t row, int64_t column, int64_t count) {
    float* p = call.row<float>(x, row) + column;
    apply(count, [cap](F32x16 v) { return cap * tanh(v / cap); }, p, static_cast<const float*>(p));
  });
}

namespace {

template <class Activation>
void gate(const KernelCall& call, Activation activation) {
  const Operand& g = call.instruction.inputs[0];
  const Operand& up = call.instruction.inputs[1];
  const Operand& y = call.instruction.outputs[0];
  for_spans(call, y.width, [&](int64_t row, int64_t column, int64_t count) {
    apply(
        count, [=](F32x16 a, F32x16 b) { return activation(a) * b; },
        call.row<float>(y, row) + column, call.row<float>(g, row) + column,
        call.row<float>(up, row) + column);
  });
}

}  // namespace

void gated_activation(const KernelCall& call) {
  if (call.instruction.ints[0] == 0) {
    gate(call, [](F32x16 x) { return silu(x); });
  } else {
    gate(call, [](F32x16 x) { return gelu_tanh(x); });
  }
}

void gather_rows(const KernelCall& call) {
  const Operand& x = call.instruction.inputs[0];
  const Operand& y = call.instruction.outputs[0];
  for_row_chunks(call, [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) {
      std::memcpy(call.row<float>(y, r), call.row<float>(x, call.step.logit_rows[r]),
                  static_cast<size_t>(y.width) * sizeof(float));
    }
  });
}

}  // namespace octavo::OCTAVO_LEVEL
