// An array of numbers that is zero, and takes memory from the system where it is first written: for
// what only some requests need. Its size is fixed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "runtime/memory.h"

namespace octavo {

template <typename T>
class ZeroedArray {
  static_assert(std::is_arithmetic_v<T>);

 public:
  // Throws std::bad_alloc.
  explicit ZeroedArray(size_t size)
      : memory_(static_cast<int64_t>(size * sizeof(T))), size_(size) {}

  size_t size() const { return size_; }
  T* data() { return reinterpret_cast<T*>(memory_.data()); }
  const T* data() const { return reinterpret_cast<const T*>(memory_.data()); }
  T& operator[](size_t i) { return data()[i]; }
  T operator[](size_t i) const { return data()[i]; }

 private:
  MappedMemory memory_;
  size_t size_;
};

}  // namespace octavo
