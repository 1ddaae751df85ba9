// Memory of packed weights: many matrices side by side in mappings large enough for huge pages.
// Knows nothing of what lies in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include "runtime/memory.h"

namespace octavo {

class WeightMemory {
 public:
  // Most matrices of a small model are smaller than a huge page; alone, each would lie in small
  // ones. A matrix that does not fit into what is left of a chunk begins another.
  explicit WeightMemory(int64_t chunk_bytes) : chunk_bytes_(chunk_bytes) {}
  // `bytes` zeroed bytes, aligned to 64. A chunk is given back when nobody holds any of it.
  // Throws std::bad_alloc. May be called from several threads.
  std::shared_ptr<std::byte> take(int64_t bytes);

 private:
  const int64_t chunk_bytes_;
  std::mutex callers_;
  std::shared_ptr<MappedMemory> chunk_;  // the one that still has room
  int64_t used_bytes_ = 0;               // of it
};

}  // namespace octavo
