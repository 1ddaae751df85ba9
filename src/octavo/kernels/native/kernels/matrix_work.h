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

// Items are (block of panels) x (few tiles), block by block. A worker keeps the panels of its block
// in the second-level cache and streams tiles over them; the tiles of an item stay in the first.
struct MatrixBlocking {
  int64_t panel_blocks;
  int64_t tiles;  // per item
};

// Bytes of the caches that an item's tiles and panels may take.
struct CacheShares {
  int64_t tiles;
  int64_t panels;
};
// A third of the first level for tiles: a panel passes by.
inline constexpr CacheShares kIntegerShares{12 << 10, 384 << 10};
// Float panels pass by tiles that stay in the second level. A block of them is what a worker's
// scratch keeps packed (kernels/float_panel.h), however many rows a step has: with all of a
// worker's rows in one block, 2048 rows of F32 were packed anew for each item, and 896 x 4864
// took 1.7 times as long, 1536 x 576 1.08 times; half the share takes 1.05 times (Zen 3, 2 threads,
// in_turns).
inline constexpr CacheShares kFloatShares{512 << 10, 3 << 20};

// As many panel blocks for each worker, where there are enough panels: the rows that it computed in
// the last instruction are then those that it reads in this one. A few panels are one block, so
// that each tile is read, and unpacked, by one worker: on Zen 3 at 2 threads 1.05 to 1.2 times as
// fast for 3 to 6 panels of 6 rows, as fast from 12 on (benchmarks.kernels.in_turns).
inline constexpr int64_t kFewPanels = 10;
inline MatrixBlocking matrix_blocking(int64_t num_panels, int64_t panel_bytes, int64_t num_tiles,
                                      int64_t tile_bytes, int num_workers, CacheShares shares) {
  if (num_panels == 1) return {1, streaming_tiles(num_tiles, tile_bytes, num_workers)};
  const int64_t tiles = clamp(shares.tiles / tile_bytes, 1, 8);
  if (num_panels <= kFewPanels && num_panels * panel_bytes <= shares.panels) return {1, tiles};
  const int64_t blocks_per_worker =
      divide_up(num_panels * panel_bytes, shares.panels * num_workers);
  return {clamp(blocks_per_worker * num_workers, 1, num_panels), tiles};
}

// A panel's meeting with a tile.
struct TileVisit {
  Panel panel;
  int64_t tile;
  int64_t step;        // tile + step is the tile that follows when all panels have met this one
  int64_t num_panels;  // that this worker lets meet the tile one after the other
};

// body(visit) for every panel of x's rows and every tile, shared among the workers.
template <class Body>
inline void for_panel_tiles(const KernelCall& call, const Operand& x, int64_t num_tiles,
                            int64_t tile_bytes, Body body) {
  const int32_t rows = call.rows();
  const int64_t panels = num_panels(rows, kRowBlock);
  if (panels == 0) return;
  const MatrixBlocking blocking =
      matrix_blocking(panels, x.row_stride * kRowBlock, num_tiles, tile_bytes, call.num_workers,
                      x.dtype == DType::kQ8 ? kIntegerShares : kFloatShares);
  const int64_t tile_items = divide_up(num_tiles, blocking.tiles);
  const int64_t items = blocking.panel_blocks * tile_items;
  // With one panel the rows have no owner, and who reads weights faster should read more of them.
  const bool leaves_last = panels > 1;
  for (int64_t item = call.next_of(items, leaves_last); item < items;
       item = call.next_of(items, leaves_last)) {
    const int64_t block = item / tile_items, i = item % tile_items;  // both of nearly equal size
    const int64_t first_panel = block * panels / blocking.panel_blocks;
    const int64_t last_panel = (block + 1) * panels / blocking.panel_blocks;
    const int64_t first_tile = i * num_tiles / tile_items;
    const int64_t last_tile = (i + 1) * num_tiles / tile_items;
    const int64_t step = panels == 1 ? 1 : blocking.tiles;
    for (int64_t p = first_panel; p < last_panel; ++p) {
      const Panel rows_of_panel = panel(static_cast<int32_t>(p), rows, kRowBlock);
      for (int64_t tile = first_tile; tile < last_tile; ++tile) {
        body(TileVisit{rows_of_panel, tile, step, last_panel - first_panel});
      }
    }
  }
}

}  // namespace octavo::OCTAVO_LEVEL
