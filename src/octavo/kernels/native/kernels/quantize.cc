// Kernel `quantize`: float rows to int8 activation panels. Work items are pieces of a panel's
// columns, so that no two workers write into one cache line.
#include "kernels/quantize_group.h"
#include "kernels/row_block.h"
#include "octavo/program.h"

namespace octavo::OCTAVO_LEVEL {

void quantize(const KernelCall& call) {
  constexpr int64_t kPieceColumns = 16 * kGroup;
  const Operand& x = call.instruction.inputs[0];
  const Operand& y = call.instruction.outputs[0];
  const int32_t rows = call.rows();
  const int64_t pieces = (x.width + kPieceColumns - 1) / kPieceColumns;
  const int64_t stride = x.row_stride / static_cast<int64_t>(sizeof(float));
  const int64_t items = pieces * num_panels(rows, kRowBlock);
  for (int64_t item = call.next_of(items); item < items; item = call.next_of(items)) {
    const Panel p = panel(static_cast<int32_t>(item / pieces), rows, kRowBlock);
    const int64_t first = item % pieces * kPieceColumns;
    const int64_t columns = x.width - first < kPieceColumns ? x.width - first : kPieceColumns;
    const float* rows_of_x = call.row<float>(x, p.first_row);
    std::byte* panel_of_y = call.row<std::byte>(y, p.first_row);
    for (int64_t column = first; column < first + columns; column += kGroup) {
      quantize_group(rows_of_x + column, stride, group_slots(panel_of_y, column, p.rows));
    }
  }
}

}  // namespace octavo::OCTAVO_LEVEL
