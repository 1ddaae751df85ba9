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

// The panels of one worker. Float panels are packed when first asked for; as many as the scratch
// holds are kept, so that a worker packs its share of a prompt once and not for every few tiles.
class ActivationPanels {
 public:
  ActivationPanels(const KernelCall& call, const Operand& x) : call_(call), x_(x) {}

  ActivationRows panel(Panel rows, WeightFormat format) {
    if (x_.dtype == DType::kQ8) return {call_.row<const std::byte>(x_, rows.first_row)};
    const int64_t third = call_.scratch_bytes / 3 / kLineBytes * kLineBytes;
    if (takes_bf16_lines(format)) return {bf16_.panel(call_, x_, rows, call_.scratch, third)};
    return {f32_.panel(call_, x_, rows, call_.scratch + third, 2 * third)};
  }

 private:
  // Panels of one form, in slots by their number.
  template <bool kBf16>
  struct Slots {
    static constexpr int64_t kLineColumns = kBf16 ? 2 * kLanes : kLanes;
    static constexpr int kMaxSlots = 256;
    static_assert(kFloatShares.panels <= kMinScratchBytes / 3 * 2);  // a block is packed once
    static_assert(kMaxFloatColumns / kLineColumns * kRowBlock * kLineBytes <=
                  kMinScratchBytes / 3 * (kBf16 ? 1 : 2));

    int32_t held[kMaxSlots];  // the first row of the panel in each of `count` slots
    int64_t count = 0;

    const std::byte* panel(const KernelCall& call, const Operand& x, Panel rows, std::byte* memory,
                           int64_t bytes) {
      const int64_t slot_bytes = divide_up(x.width, kLineColumns) * kRowBlock * kLineBytes;
      if (count == 0) {
        count = clamp(bytes / slot_bytes, 1, kMaxSlots);
        for (int i = 0; i < count; ++i) held[i] = -1;
      }
      const int64_t panels = num_panels(call.rows(), kRowBlock);
      const int64_t number = divide_up(rows.first_row * panels, call.rows());
      std::byte* const packed = memory + number % count * slot_bytes;
      if (held[number % count] != rows.first_row) {
        held[number % count] = rows.first_row;
        const auto pack = kBf16 ? pack_bf16_panel : pack_f32_panel;
        pack(call.row<const float>(x, rows.first_row), x.row_stride / 4, rows.rows, x.width,
             packed);
      }
      return packed;
    }
  };

  const KernelCall& call_;
  const Operand& x_;
  Slots<false> f32_;
  Slots<true> bf16_;
};

}  // namespace octavo::OCTAVO_LEVEL
