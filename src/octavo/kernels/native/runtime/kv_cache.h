// The memory of all layers' key/value pages. Which page belongs to whom is not known here.
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
  };
  // Reserves address space for [layer][page][head][keys | values]; pages are zero until written.
  // Throws std::invalid_argument on counts out of range, std::bad_alloc when there is no room.
  KvCache(int64_t num_pages, const std::vector<LayerShape>& layers, DType dtype);

  const std::vector<KvLayer>& layers() const { return layers_; }
  // Throws std::invalid_argument if there is no such layer.
  const KvLayer& layer(int64_t index) const;
  int64_t num_pages() const { return layers_.front().num_pages; }
  // Of all layers and pages, whether touched or not.
  int64_t num_bytes() const { return memory_.size(); }
  // Of one page in all layers.
  int64_t page_bytes() const { return page_bytes_; }

  // The content of a page, of all layers, as it lies in memory: codes and scales, bit for bit.
  // Pages are in range; buffers have page_bytes() bytes and do not overlap the pages.
  void copy_page(int64_t source, int64_t target);
  void save_page(int64_t page, std::byte* out) const;
  void load_page(int64_t page, const std::byte* data);

 private:
  MappedMemory memory_;
  std::vector<KvLayer> layers_;
  int64_t page_bytes_ = 0;
};

// The numbers of a page, [head][keys [head_dim][16] | values [16][head_dim]] whatever its layout.
// Int8 keys stay transformed.
void read_page(const KvLayer& layer, int64_t page, float* out);

}  // namespace octavo
