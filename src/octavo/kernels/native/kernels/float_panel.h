// Float activations as the float tile products read them: panels of rows in lines of 64 bytes, so
// that a panel is one stream. Each worker packs the panels that it multiplies with into its
// scratch. Knows nothing of weights but their format.
//
// Panel of R rows: [lines][R][64 bytes]; a line holds 16 float32 of its row, or 32 bfloat16 where
// the level has their dot product and the weights are BF16. Columns past the end are 0.
#pragma once

#include <cstddef>
#include <cstdint>

#include "formats/packed.h"
#include "kernels/elementwise.h"
#include "kernels/matrix_work.h"
#include "kernels/tile_product.h"
#include "octavo/program.h"
#include "simd/bf16.h"

namespace octavo::OCTAVO_LEVEL {

constexpr bool takes_bf16_lines(WeightFormat format) {
  return kHasBf16Dot && format == WeightFormat::kBF16;
}

// Sixteen columns from `first` of a row of `columns`, zeros behind its end.
OCTAVO_INLINE F32x16 load_columns(const float* row, int64_t first, int64_t columns) {
  if (first + kLanes <= columns) return load(row + first);
  return first < columns ? load_part(row + first, columns - first) : zero_f32();
}

inline void pack_f32_panel(const float* rows, int64_t stride, int num_rows, int64_t columns,
                           std::byte* panel) {
  for (int64_t first = 0; first < columns; first += kLanes) {
    for (int r = 0; r < num_rows; ++r, panel += kLineBytes) {
      store(reinterpret_cast<float*>(panel), load_columns(rows + r * stride, first, columns));
    }
  }
}

inline void pack_bf16_panel(const float* rows, int64_t stride, int num_rows, int64_t columns,
                            std::byte* panel) {
  for (int64_t first = 0; first < columns; first += 2 * kLanes) {
    for (int r = 0; r < num_rows; ++r, panel += kLineBytes) {
      const float* row = rows + r * stride;
      store_bf16_line(panel, load_columns(row, first, columns),
                      load_columns(row, first + kLanes, columns));
    }
  }
}

// The panels of one worker. Float panels are packed when first asked for and kept until another
// one is.
class ActivationPanels {
 public:
  ActivationPanels(const KernelCall& call, const Operand& x) : call_(call), x_(x) {}

  ActivationRows panel(Panel rows, WeightFormat format) {
    const std::byte* x = call_.row<const std::byte>(x_, rows.first_row);
    if (x_.dtype == DType::kQ8) return {x};
    const bool pairs = takes_bf16_lines(format);
    std::byte* const packed = call_.scratch + (pairs ? kPairsOffset : 0);
    if (packed_row_[pairs] != rows.first_row) {
      packed_row_[pairs] = rows.first_row;
      const auto pack = pairs ? pack_bf16_panel : pack_f32_panel;
      pack(reinterpret_cast<const float*>(x), x_.row_stride / 4, rows.rows, x_.width, packed);
    }
    return {packed};
  }

 private:
  static constexpr int64_t kPairsOffset = kRowBlock * kMaxFloatColumns * 4;
  static_assert(kPairsOffset / 2 * 3 <= kMinScratchBytes);

  const KernelCall& call_;
  const Operand& x_;
  int32_t packed_row_[2] = {-1, -1};  // the first row of each form's panel in the scratch
};

}  // namespace octavo::OCTAVO_LEVEL
