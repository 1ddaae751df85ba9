// The weight tiles that one worker multiplies its panels with: as they are packed or, where enough
// panels meet each, unpacked into its scratch first. Knows nothing of what becomes of the products.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/float_panel.h"
#include "kernels/matrix_work.h"
#include "kernels/register_tile.h"
#include "kernels/tile_product.h"
#include "kernels/unpacked_tile.h"
#include "octavo/program.h"

namespace octavo::OCTAVO_LEVEL {

class WeightTiles {
 public:
  WeightTiles(const KernelCall& call, const Operand& x) : call_(call), panels_(call, x) {}

  // out[row][lane] of a tile. `slot`: a number that the tiles of one work item do not share.
  void multiply(const PackedMatrix& matrix, int64_t tile, int64_t slot, const TileVisit& visit,
                float* out) {
    const std::byte* const packed = matrix.data + tile * matrix.tile_bytes;
    const bool read_once = visit.step == 1 && visit.num_panels == 1;
    const int64_t ahead =
        kStreamAhead > 0 && read_once ? kStreamAhead : visit.step * matrix.tile_bytes;
    const ActivationRows rows = panels_.panel(visit.panel, matrix.format);
    const std::byte* const unpacked = unpacked_tile(matrix, packed, slot, visit);
    if (unpacked || takes_registers(matrix.format)) {
      registers_.shape(visit.panel.rows, register_depth_bytes(matrix.format));
    }
    if (unpacked) {
      unpacked_product(matrix.format, visit.panel.rows)(unpacked, rows, matrix.columns,
                                                        packed + ahead, out);
    } else {
      tile_product(matrix.format, visit.panel.rows)(packed, rows, matrix.columns, ahead, out);
    }
  }

 private:
  static constexpr int kMaxSlots = 32;

  // For vectors, unpacking takes as long as what it saves of two or three panels; more, where there
  // is little to unpack.
  static constexpr int64_t worthwhile_panels(WeightFormat format) {
    const BlockLayout layout = block_layout(format);
    const bool plain = layout.scales == ScaleKind::kPlain || layout.scales == ScaleKind::kMinimum;
    return layout.bits == 4 && plain ? 5 : 3;
  }

  // Null where packed tiles are better. The scratch is free: panels of floats are in it only.
  const std::byte* unpacked_tile(const PackedMatrix& matrix, const std::byte* packed, int64_t slot,
                                 const TileVisit& visit) {
    if constexpr (!kUnpacksTiles) return nullptr;
    const bool few = kHasTiles ? visit.panel.rows < kFewestRegisterRows
                               : visit.num_panels < worthwhile_panels(matrix.format);
    if (few || !is_unpacked(matrix.format)) return nullptr;
    const int64_t slot_bytes = matrix.columns / kGroup * kMaxUnpackedGroupBytes;
    if (slot >= kMaxSlots || (slot + 1) * slot_bytes > call_.scratch_bytes) return nullptr;
    std::byte* const unpacked = call_.scratch + slot * slot_bytes;
    if (held_[slot] != packed) {
      held_[slot] = packed;
      unpack_tile(matrix.format)(packed, matrix.columns, unpacked);
    }
    return unpacked;
  }

  const KernelCall& call_;
  ActivationPanels panels_;
  TileRegisters registers_;
  const std::byte* held_[kMaxSlots] = {};  // the packed tile that each slot holds unpacked
};

}  // namespace octavo::OCTAVO_LEVEL
