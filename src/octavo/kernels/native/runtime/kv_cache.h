// The memory of all layers' key/value pages. Which page belongs to whom is not known here.
//
// Layers stand in groups: a page holds some tokens of the layers of one group, whichever that is.
// It has a shelf for each of them; layers on the same shelf, of different groups, use the same
// memory, page by page.
#pragma once

#include <cstdint>
#include <vector>

#include "octavo/types.h"
#include "runtime/memory.h"

namespace octavo {

class KvCache {
 public:
  struct LayerShape {
    int64_t num_kv_heads;
    int64_t head_dim;
    int64_t group;
    int64_t shelf;
  };
  // Reserves address space for [shelf][page][head][keys | values]; pages are zero until written.
  // Throws std::invalid_argument on counts out of range and on two layers in one place,
  // std::bad_alloc when there is no room.
  KvCache(int64_t num_pages, const std::vector<LayerShape>& layers, DType dtype);

  const std::vector<KvLayer>& layers() const { return layers_; }
  // Throws std::invalid_argument if there is no such layer.
  const KvLayer& layer(int64_t index) const;
  int64_t num_pages() const { return layers_.front().num_pages; }
  // Of all shelves and pages, whether touched or not.
  int64_t num_bytes() const { return memory_.size(); }
  // Of one page on all shelves.
  int64_t page_bytes() const { return page_bytes_; }

  // The content of a page, of all shelves, as it lies in memory: codes and scales, bit for bit.
  // Pages are in range; buffers have page_bytes() bytes and do not overlap the pages.
  void copy_page(int64_t source, int64_t target);
  void save_page(int64_t page, std::byte* out) const;
  void load_page(int64_t page, const std::byte* data);

 private:
  // Pages of one shelf stand side by side; each has as many bytes as its largest layer wants.
  struct Shelf {
    std::byte* data;
    int64_t page_bytes;

    std::byte* page(int64_t index) const { return data + index * page_bytes; }
  };

  MappedMemory memory_;
  std::vector<Shelf> shelves_;
  std::vector<KvLayer> layers_;
  int64_t page_bytes_ = 0;
};

// The numbers of a page, [head][keys [head_dim][16] | values [16][head_dim]] whatever its layout.
// Int8 keys stay transformed.
void read_page(const KvLayer& layer, int64_t page, float* out);

}  // namespace octavo
