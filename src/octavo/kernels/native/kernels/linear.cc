// Kernel `linear`: y = x W^T (+ bias), stored or added to y, for several matrices side by side.
#include "kernels/elementwise.h"
#include "kernels/matrix_work.h"
#include "kernels/weight_tiles.h"
#include "octavo/program.h"

namespace octavo::OCTAVO_LEVEL {
namespace {

// One of the matrices, and where its columns begin in y.
struct Segment {
  const PackedMatrix* matrix;
  const float* bias;  // null: none
  int64_t first_tile;
  int64_t first_column;
};

// The segment that holds tile `tile` of all segments' tiles in a row.
Segment find_segment(const KernelCall& call, int64_t tile) {
  const auto& inputs = call.instruction.inputs;
  Segment s{&call.matrix(inputs[1]), call.vector(inputs[2]), 0, 0};
  for (int i = 1; tile >= s.first_tile + s.matrix->num_tiles; ++i) {
    s = {&call.matrix(inputs[2 * i + 1]), call.vector(inputs[2 * i + 2]),
         s.first_tile + s.matrix->num_tiles, s.first_column + s.matrix->rows};
  }
  return s;
}

// Lanes [0, count) of one row of a tile's product to y.
OCTAVO_INLINE void finish_row(const float* product, const float* bias, bool add, int64_t count,
                              float* y) {
  const bool whole = count == kTileColumns;
  F32x16 value = load(product);
  if (bias) value = value + (whole ? load(bias) : load_part(bias, count));
  if (add) value = (whole ? load(y) : load_part(y, count)) + value;
  if (whole) {
    store(y, value);
  } else {
    store_part(y, value, count);
  }
}

}  // namespace

void linear(const KernelCall& call) {
  const Instruction& instruction = call.instruction;
  const Operand& x = instruction.inputs[0];
  const Operand& y = instruction.outputs[0];
  const bool add = instruction.ints[1] == 1;
  const int64_t stride = y.row_stride / static_cast<int64_t>(sizeof(float));
  int64_t num_tiles = 0;
  for (int64_t i = 0; i < instruction.ints[0]; ++i) {
    num_tiles += call.matrix(instruction.inputs[2 * i + 1]).num_tiles;
  }
  WeightTiles tiles(call, x);
  const int64_t tile_bytes = call.matrix(instruction.inputs[1]).tile_bytes;
  for_panel_tiles(call, x, num_tiles, tile_bytes, [&](const TileVisit& visit) {
    const Panel panel = visit.panel;
    const Segment segment = find_segment(call, visit.tile);
    const PackedMatrix& matrix = *segment.matrix;
    const int64_t local = visit.tile - segment.first_tile, column = local * kTileColumns;
    alignas(64) float products[kRowBlock * kTileColumns];
    float* out = call.row<float>(y, panel.first_row) + segment.first_column + column;
    for (int r = 0; r < panel.rows; ++r) __builtin_prefetch(out + r * stride, 1);
    tiles.multiply(matrix, local, visit.tile % visit.step, visit, products);
    const int64_t count = clamp(matrix.rows - column, 0, kTileColumns);
    const float* bias = segment.bias ? segment.bias + column : nullptr;
    for (int r = 0; r < panel.rows; ++r) {
      finish_row(products + r * kTileColumns, bias, add, count, out + r * stride);
    }
  });
}

}  // namespace octavo::OCTAVO_LEVEL
