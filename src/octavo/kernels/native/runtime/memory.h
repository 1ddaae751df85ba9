// Zeroed, page-aligned memory that the system provides when it is first touched.
#pragma once

#include <cstddef>
#include <cstdint>

namespace octavo {

class MappedMemory {
 public:
  MappedMemory() = default;
  // Throws std::bad_alloc when the address space or the system's limits do not allow it.
  // Large regions ask for huge pages: a decode step reads all weights once, and with 4 KB pages
  // the address translation costs more than a tenth of that time.
  explicit MappedMemory(int64_t bytes);
  MappedMemory(MappedMemory&& other) noexcept;
  MappedMemory& operator=(MappedMemory&& other) noexcept;
  ~MappedMemory();

  std::byte* data() const { return data_; }
  int64_t size() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
};

}  // namespace octavo
