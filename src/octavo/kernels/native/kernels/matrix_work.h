// Cuts a matrix product into work items, (range of row panels) x (range of tiles), and visits them.
// Owns the blocking for the caches; knows nothing of formats or of what is done with a tile.
#pragma once

#include <cstdint>

#include "formats/activation.h"
#include "kernels/row_block.h"
#include "octavo/program.h"

namespace octavo::OCTAVO_LEVEL {

constexpr int64_t clamp(int64_t x, int64_t low, int64_t high) {
  return x < low ? low : x > high ? high : x;
}
constexpr int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Tiles per item when each tile is read once: the same number of items for every worker, each long
// enough that its start (a counter that travels between cores, a stream not yet prefetched) is
// small.
inline int64_t streaming_tiles(int64_t num_tiles, int64_t tile_bytes, int num_workers) {
  constexpr int64_t kSmallItem = 96 << 10, kMaxItemsPerWorker = 16;
  const int64_t items_per_worker =
      clamp(num_tiles * tile_bytes / (kSmallItem * num_workers), 1, kMaxItemsPerWorker);
  return divide_up(num_tiles, items_per_worker * num_workers);
}

// Sizes of an item. A worker that takes consecutive items keeps its panels in the second-level
// cache and streams tiles over them; within an item a few tiles stay in the first level.
struct MatrixBlocking {
  int64_t panels;
  int64_t tiles;
};

// Bytes of the caches that an item's tiles and panels may take.
struct CacheShares {
  int64_t tiles;
  int64_t panels;
};
// A third of the first level for tiles: a panel passes by.
inline constexpr CacheShares kIntegerShares{12 << 10, 384 << 10};
// Float panels are packed once for all tiles of an item, so these are many and stay in the second
// level while the panels pass.
inline constexpr CacheShares kFloatShares{512 << 10, INT64_MAX};

inline MatrixBlocking matrix_blocking(int64_t num_panels, int64_t panel_bytes, int64_t num_tiles,
                                      int64_t tile_bytes, int num_workers, CacheShares shares) {
  if (num_panels == 1) return {1, streaming_tiles(num_tiles, tile_bytes, num_workers)};
  const int64_t wanted_items = num_workers == 1 ? 1 : 16 * num_workers;
  const int64_t tiles = clamp(shares.tiles / tile_bytes, 1, 8);
  const int64_t tile_items = divide_up(num_tiles, tiles);
  const int64_t panels_for_balance = num_panels * tile_items / wanted_items;
  const int64_t panels_for_cache = shares.panels / panel_bytes;
  const int64_t panels =
      panels_for_balance < panels_for_cache ? panels_for_balance : panels_for_cache;
  return {clamp(panels, 1, num_panels), tiles};
}

// body(panel, tile) for every panel of x's rows and every tile, shared among the workers.
template <class Body>
inline void for_panel_tiles(const KernelCall& call, const Operand& x, int64_t num_tiles,
                            int64_t tile_bytes, Body body) {
  const int32_t rows = call.rows();
  const int64_t panels = num_panels(rows, kRowBlock);
  if (panels == 0) return;
  const MatrixBlocking block =
      matrix_blocking(panels, x.row_stride * kRowBlock, num_tiles, tile_bytes, call.num_workers,
                      x.dtype == DType::kQ8 ? kIntegerShares : kFloatShares);
  const int64_t tile_items = divide_up(num_tiles, block.tiles);
  const int64_t items = tile_items * divide_up(panels, block.panels);
  for (int64_t item = call.next_item(); item < items; item = call.next_item()) {
    const int64_t first_panel = item / tile_items * block.panels;
    const int64_t i = item % tile_items;  // items of nearly equal size
    const int64_t first_tile = i * num_tiles / tile_items;
    const int64_t last_panel = clamp(first_panel + block.panels, 0, panels);
    const int64_t last_tile = (i + 1) * num_tiles / tile_items;
    for (int64_t p = first_panel; p < last_panel; ++p) {
      const Panel rows_of_panel = panel(static_cast<int32_t>(p), rows, kRowBlock);
      for (int64_t tile = first_tile; tile < last_tile; ++tile) body(rows_of_panel, tile);
    }
  }
}

}  // namespace octavo::OCTAVO_LEVEL
