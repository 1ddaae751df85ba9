// Kernels `linear_gated` and `linear_gated_quantize`: y = act(x Wgate^T) * (x Wup^T), the first
// half of a gated MLP.
#include "kernels/activation_function.h"
#include "kernels/elementwise.h"
#include "kernels/float_panel.h"
#include "kernels/matrix_work.h"
#include "kernels/quantize_group.h"
#include "kernels/tile_product.h"
#include "octavo/program.h"

namespace octavo::OCTAVO_LEVEL {
namespace {

// The columns of one group, in tiles.
constexpr int64_t kGroupTiles = kGroup / kTileColumns;

OCTAVO_INLINE F32x16 gated(bool gelu, F32x16 gate, F32x16 up) {
  return (gelu ? gelu_tanh(gate) : silu(gate)) * up;
}

class GatedTiles {
 public:
  explicit GatedTiles(const KernelCall& call)
      : x_(call.instruction.inputs[0]),
        panels_(call, x_),
        gate_(call.matrix(call.instruction.inputs[1])),
        up_(call.matrix(call.instruction.inputs[2])),
        gelu_(call.instruction.ints[0] == 1) {}

  int64_t num_tiles() const { return gate_.num_tiles; }
  int64_t tile_bytes() const { return gate_.tile_bytes + up_.tile_bytes; }
  const Operand& activations() const { return x_; }

  // values[row][lane] of one tile, rows `stride` floats apart.
  void multiply(Panel panel, int64_t tile, int64_t step, int64_t stride, float* values) {
    alignas(64) float gates[kRowBlock * kTileColumns], ups[kRowBlock * kTileColumns];
    multiply(gate_, panel, tile, step, gates);
    multiply(up_, panel, tile, step, ups);
    for (int r = 0; r < panel.rows; ++r) {
      const int i = r * kTileColumns;
      store(values + r * stride, gated(gelu_, load(gates + i), load(ups + i)));
    }
  }

 private:
  void multiply(const PackedMatrix& matrix, Panel panel, int64_t tile, int64_t step,
                float* products) {
    tile_product(matrix.format, panel.rows)(matrix.data + tile * matrix.tile_bytes,
                                            panels_.panel(panel, matrix.format), matrix.columns,
                                            step * matrix.tile_bytes, products);
  }

  const Operand& x_;
  ActivationPanels panels_;
  const PackedMatrix& gate_;
  const PackedMatrix& up_;
  const bool gelu_;
};

}  // namespace

void linear_gated(const KernelCall& call) {
  GatedTiles tiles(call);
  const Operand& y = call.instruction.outputs[0];
  for_panel_tiles(call, tiles.activations(), tiles.num_tiles(), tiles.tile_bytes(),
                  [&](Panel panel, int64_t tile, int64_t step) {
                    alignas(64) float values[kRowBlock * kTileColumns];
                    tiles.multiply(panel, tile, step, kTileColumns, values);
                    const int64_t column = tile * kTileColumns;
                    const int64_t count = clamp(y.width - column, 0, kTileColumns);
                    for (int r = 0; r < panel.rows; ++r) {
                      float* out = call.row<float>(y, panel.first_row + r) + column;
                      const F32x16 value = load(values + r * kTileColumns);
                      if (count == kTileColumns) {
                        store(out, value);
                      } else {
                        store_part(out, value, count);
                      }
                    }
                  });
}

// The tiles of a group go together, so that its values are rounded where they are computed.
void linear_gated_quantize(const KernelCall& call) {
  GatedTiles tiles(call);
  const Operand& y = call.instruction.outputs[0];
  for_panel_tiles(call, tiles.activations(), tiles.num_tiles() / kGroupTiles,
                  kGroupTiles * tiles.tile_bytes(), [&](Panel panel, int64_t group, int64_t step) {
                    alignas(64) float values[kRowBlock * kGroup];
                    for (int64_t t = 0; t < kGroupTiles; ++t) {
                      tiles.multiply(panel, group * kGroupTiles + t, step * kGroupTiles, kGroup,
                                     values + t * kTileColumns);
                    }
                    quantize_group(values, kGroup,
                                   group_slots(call.row<std::byte>(y, panel.first_row),
                                               group * kGroup, panel.rows));
                  });
}

}  // namespace octavo::OCTAVO_LEVEL
