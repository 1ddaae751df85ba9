// Kernels `rope_angles` and `rope`.
#include <cmath>

#include "kernels/rotate_head.h"
#include "kernels/rows.h"
#include "octavo/program.h"

namespace octavo::OCTAVO_LEVEL {

// The library's sine and cosine: exact to a unit in the last place at angles of a million radians,
// and needed once per step, not once per layer.
void rope_angles(const KernelCall& call) {
  const Operand& frequencies = call.instruction.inputs[0];
  const Operand& y = call.instruction.outputs[0];
  const float scaling = call.instruction.floats[0];
  const int64_t half = frequencies.width;
  for_row_chunks(call, [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) {
      const float position = static_cast<float>(call.step.positions[r]);
      float* angles = call.row<float>(y, r);
      for (int64_t i = 0; i < half; ++i) {
        const float angle = position * call.vector(frequencies)[i];
        angles[i] = ::cosf(angle) * scaling;
        angles[half + i] = ::sinf(angle) * scaling;
      }
    }
  });
}

void rope(const KernelCall& call) {
  const Operand& x = call.instruction.outputs[0];
  const Operand& angles = call.instruction.inputs[1];
  const int64_t heads = call.instruction.ints[0], dim = call.instruction.ints[1];
  for_row_chunks(call, [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) {
      for (int64_t h = 0; h < heads; ++h) {
        rotate_head(call.row<float>(x, r) + h * dim, call.row<float>(angles, r), angles.width / 2);
      }
    }
  });
}

}  // namespace octavo::OCTAVO_LEVEL
