// Cutting chunks of memory into regions.
#include "runtime/weight_memory.h"

#include <algorithm>

namespace octavo {

std::shared_ptr<std::byte> WeightMemory::take(int64_t bytes) {
  const std::lock_guard<std::mutex> turn(callers_);
  if (chunk_ == nullptr || bytes > chunk_->size() - used_bytes_) {
    chunk_ = std::make_shared<MappedMemory>(std::max(bytes, chunk_bytes_));
    used_bytes_ = 0;
  }
  std::byte* const start = chunk_->data() + used_bytes_;
  used_bytes_ = std::min((used_bytes_ + bytes + 63) / 64 * 64, chunk_->size());
  return {chunk_, start};
}

}  // namespace octavo
