// Kernel `embed`: rows of a packed matrix by token id, scaled.
#include "formats/pack.h"
#include "kernels/elementwise.h"
#include "octavo/program.h"

namespace octavo::OCTAVO_LEVEL {

void embed(const KernelCall& call) {
  const PackedMatrix& matrix = call.matrix(call.instruction.inputs[0]);
  const Operand& y = call.instruction.outputs[0];
  const F32x16 scale = splat(call.instruction.floats[0]);
  const int64_t rows = call.rows();
  for (int64_t t = call.next_of(rows); t < rows; t = call.next_of(rows)) {
    // Ids are checked where requests enter; here a bad one must only not leave the matrix.
    int64_t id = call.step.token_ids[t];
    id = id < 0 ? 0 : id >= matrix.rows ? matrix.rows - 1 : id;
    float* row = call.row<float>(y, t);
    unpack_row(matrix, id, row);
    apply(matrix.columns, [scale](F32x16 x) { return x * scale; }, row, row);
  }
}

}  // namespace octavo::OCTAVO_LEVEL
