// Arrays as the bindings take and give them.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <memory>
#include <utility>
#include <vector>

namespace octavo {

template <typename T, int N>
using Array =
    nanobind::ndarray<const T, nanobind::ndim<N>, nanobind::c_contig, nanobind::device::cpu>;
using NumpyF32 = nanobind::ndarray<nanobind::numpy, float>;

// An array that owns its memory.
template <typename T>
nanobind::ndarray<nanobind::numpy, T> new_array(std::vector<size_t> shape) {
  size_t size = 1;
  for (const size_t n : shape) size *= n;
  auto data = std::make_unique<T[]>(size);
  T* values = data.get();
  nanobind::capsule owner(data.release(), [](void* p) noexcept { delete[] static_cast<T*>(p); });
  return nanobind::ndarray<nanobind::numpy, T>(values, shape.size(), shape.data(), owner);
}

}  // namespace octavo
