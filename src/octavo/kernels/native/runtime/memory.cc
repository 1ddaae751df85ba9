// Anonymous memory mappings, aligned to huge pages when large.
#include "runtime/memory.h"

#include <sys/mman.h>

#include <new>
#include <utility>

namespace octavo {

namespace {

constexpr int64_t kHugePageBytes = int64_t{2} << 20;

std::byte* map(int64_t bytes) {
  void* p = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) throw std::bad_alloc();
  return static_cast<std::byte*>(p);
}

// Maps more than needed and gives the unaligned ends back.
std::byte* map_aligned(int64_t bytes) {
  std::byte* start = map(bytes + kHugePageBytes);
  const auto address = reinterpret_cast<uintptr_t>(start);
  const auto head =
      static_cast<int64_t>((kHugePageBytes - address % kHugePageBytes) % kHugePageBytes);
  if (head > 0) munmap(start, static_cast<size_t>(head));
  munmap(start + head + bytes, static_cast<size_t>(kHugePageBytes - head));
  return start + head;
}

int64_t whole_pages(int64_t bytes) { return (bytes + 4095) / 4096 * 4096; }

}  // namespace

MappedMemory::MappedMemory(int64_t bytes) {
  if (bytes < 0 || bytes > INT64_MAX / 2) throw std::bad_alloc();
  if (bytes == 0) return;
  bytes_ = whole_pages(bytes);
  if (bytes_ < 2 * kHugePageBytes) {
    data_ = map(bytes_);
    return;
  }
  data_ = map_aligned(bytes_);
  madvise(data_, static_cast<size_t>(bytes_), MADV_HUGEPAGE);
}

MappedMemory::MappedMemory(MappedMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

MappedMemory& MappedMemory::operator=(MappedMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedMemory::~MappedMemory() {
  if (data_ != nullptr) munmap(data_, static_cast<size_t>(bytes_));
}

}  // namespace octavo
