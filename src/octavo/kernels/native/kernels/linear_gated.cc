// Kernel `linear_gated`: y = act(x Wgate^T) * (x Wup^T), the first half of a gated MLP.
#include "kernels/activation_function.h"
#include "kernels/elementwise.h"
#include "kernels/matrix_work.h"
#include "kernels/tile_product.h"
#include "octavo/program.h"

namespace octavo::OCTAVO_LEVEL {
namespace {

void multiply(const PackedMatrix& matrix, int64_t tile, int rows, ActivationRows activations,
              float* products) {
  tile_product(matrix.format, rows)(matrix.data + tile * matrix.tile_bytes, activations,
                                    matrix.columns, products);
}

OCTAVO_INLINE F32x16 gated(bool gelu, F32x16 gate, F32x16 up) {
  return (gelu ? gelu_tanh(gate) : silu(gate)) * up;
}

}  // namespace

void linear_gated(const KernelCall& call) {
  const Instruction& instruction = call.instruction;
  const Operand& x = instruction.inputs[0];
  const Operand& y = instruction.outputs[0];
  const PackedMatrix& gate = call.matrix(instruction.inputs[1]);
  const PackedMatrix& up = call.matrix(instruction.inputs[2]);
  const bool gelu = instruction.ints[0] == 1;
  const int64_t tile_bytes = gate.tile_bytes + up.tile_bytes;
  for_panel_tiles(call, x.row_stride, gate.num_tiles, tile_bytes, [&](Panel panel, int64_t tile) {
    alignas(64) float gates[kRowBlock * kTileColumns], ups[kRowBlock * kTileColumns];
    const ActivationRows rows{call.row<const std::byte>(x, panel.first_row), x.row_stride};
    multiply(gate, tile, panel.rows, rows, gates);
    multiply(up, tile, panel.rows, rows, ups);
    const int64_t column = tile * kTileColumns;
    const int64_t count = clamp(gate.rows - column, 0, kTileColumns);
    for (int r = 0; r < panel.rows; ++r) {
      const int i = r * kTileColumns;
      const F32x16 value = gated(gelu, load(gates + i), load(ups + i));
      float* out = call.row<float>(y, panel.first_row + r) + column;
      if (count == kTileColumns) {
        store(out, value);
      } else {
        store_part(out, value, count);
      }
    }
  });
}

}  // namespace octavo::OCTAVO_LEVEL
