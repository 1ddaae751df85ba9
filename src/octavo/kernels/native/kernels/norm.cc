// Kernels `rms_norm`, `rms_norm_quantize`, `rms_norm_add` and `head_rms_norm`.
#include "kernels/norm_row.h"
#include "kernels/quantize_group.h"
#include "kernels/row_block.h"
#include "kernels/rows.h"
#include "octavo/program.h"

namespace octavo::OCTAVO_LEVEL {

void rms_norm(const KernelCall& call) {
  const Operand& x = call.instruction.inputs[0];
  const float* weight = call.vector(call.instruction.inputs[1]);
  const Operand& y = call.instruction.outputs[0];
  const float eps = call.instruction.floats[0];
  for_row_chunks(call, [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) {
      rms_norm_row(call.row<float>(x, r), weight, x.width, eps, call.row<float>(y, r));
    }
  });
}

void rms_norm_add(const KernelCall& call) {
  const Operand& x = call.instruction.inputs[0];
  const float* weight = call.vector(call.instruction.inputs[1]);
  const Operand& y = call.instruction.outputs[0];
  const float eps = call.instruction.floats[0];
  for_row_chunks(call, [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) {
      rms_norm_add_row(call.row<float>(x, r), weight, x.width, eps, call.row<float>(y, r));
    }
  });
}

// One panel per work item: its rows interleave, and no two workers write into one cache line.
void rms_norm_quantize(const KernelCall& call) {
  const Operand& x = call.instruction.inputs[0];
  const float* weight = call.vector(call.instruction.inputs[1]);
  const Operand& y = call.instruction.outputs[0];
  const float eps = call.instruction.floats[0];
  const int32_t rows = call.rows(), items = num_panels(rows, kRowBlock);
  for (int64_t item = call.next_of(items); item < items; item = call.next_of(items)) {
    const Panel p = panel(static_cast<int32_t>(item), rows, kRowBlock);
    std::byte* out = call.row<std::byte>(y, p.first_row);
    float scales[kRowBlock];
    for (int r = 0; r < p.rows; ++r) {
      scales[r] = inverse_rms(call.row<float>(x, p.first_row + r), x.width, eps);
    }
    for (int64_t column = 0; column < x.width; column += kGroup) {
      alignas(64) float normed[kRowBlock * kGroup];
      for (int r = 0; r < p.rows; ++r) {
        apply_rms_norm(call.row<float>(x, p.first_row + r) + column, weight + column, kGroup,
                       scales[r], normed + r * kGroup);
      }
      quantize_group(normed, kGroup, group_slots(out, column, p.rows));
    }
  }
}

void head_rms_norm(const KernelCall& call) {
  const Operand& x = call.instruction.outputs[0];
  const float* weight = call.vector(call.instruction.inputs[1]);
  const int64_t heads = call.instruction.ints[0], dim = call.instruction.ints[1];
  const float eps = call.instruction.floats[0];
  for_row_chunks(call, [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) {
      float* row = call.row<float>(x, r);
      for (int64_t h = 0; h < heads; ++h) {
        rms_norm_row(row + h * dim, weight, dim, eps, row + h * dim);
      }
    }
  });
}

}  // namespace octavo::OCTAVO_LEVEL
