// Kernels `linear_gated` and `linear_gated_quantize`: y = act(x Wgate^T) * (x Wup^T), the first
// half of a gated MLP.
#include "kernels/activation_function.h"
#include "kernels/elementwise.h"
#include "kernels/matrix_work.h"
#include "kernels/quantize_group.h"
#include "kernels/weight_tiles.h"
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
        tiles_(call, x_),
        gate_(call.matrix(call.instruction.inputs[1])),
        up_(call.matrix(call.instruction.inputs[2])),
        gelu_(call.instruction.ints[0] == 1) {}

  int64_t num_tiles() const { return gate_.num_tiles; }
  int64_t tile_bytes() const { return gate_.tile_bytes + up_.tile_bytes; }
  const Operand& activations() const { return x_; }

  // values[row][lane] of one tile, rows `stride` floats apart. `slot`: as in WeightTiles, less than
  // half as many.
  void multiply(int64_t tile, int64_t slot, const TileVisit& visit, int64_t stride, float* values) {
    alignas(64) float gates[kRowBlock * kTileColumns], ups[kRowBlock * kTileColumns];
    tiles_.multiply(gate_, tile, 2 * slot, visit, gates);
    tiles_.multiply(up_, tile, 2 * slot + 1, visit, ups);
    for (int r = 0; r < visit.panel.rows; ++r) {
      const int i = r * kTileColumns;
      store(values + r * stride, gated(gelu_, load(gates + i), load(ups + i)));
    }
  }

 private:
  const Operand& x_;
  WeightTiles tiles_;
  const PackedMatrix& gate_;
  const PackedMatrix& up_;
  const bool gelu_;
};

}  // namespace

void linear_gated(const KernelCall& call) {
  GatedTiles tiles(call);
  const Operand& y = call.instruction.outputs[0];
  for_panel_tiles(call, tiles.activations(), tiles.num_tiles(), tiles.tile_bytes(),
                  [&](const TileVisit& visit) {
                    alignas(64) float values[kRowBlock * kTileColumns];
                    tiles.multiply(visit.tile, visit.tile % visit.step, visit, kTileColumns,
                                   values);
                    const int64_t column = visit.tile * kTileColumns;
                    const int64_t count = clamp(y.width - column, 0, kTileColumns);
                    for (int r = 0; r < visit.panel.rows; ++r) {
                      float* out = call.row<float>(y, visit.panel.first_row + r) + column;
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
  for_panel_tiles(
      call, tiles.activations(), tiles.num_tiles() / kGroupTiles, kGroupTiles * tiles.tile_bytes(),
      [&](const TileVisit& visit) {
        alignas(64) float values[kRowBlock * kGroup];
        TileVisit in_tiles = visit;  // what is counted in groups here
        in_tiles.step *= kGroupTiles;
        for (int64_t t = 0; t < kGroupTiles; ++t) {
          const int64_t tile = visit.tile * kGroupTiles + t;
          tiles.multiply(tile, tile % in_tiles.step, in_tiles, kGroup, values + t * kTileColumns);
        }
        const Panel panel = visit.panel;
        quantize_group(
            values, kGroup,
            group_slots(call.row<std::byte>(y, panel.first_row), visit.tile * kGroup, panel.rows));
      });
}

}  // namespace octavo::OCTAVO_LEVEL
