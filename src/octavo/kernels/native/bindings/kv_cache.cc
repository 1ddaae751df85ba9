// Pages from Python. The stub is kernels/_native.pyi.
#include "runtime/kv_cache.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "bindings/arrays.h"
#include "bindings/kv_cache.h"

namespace nb = nanobind;

namespace octavo {
namespace {

using WritableBytes = nb::ndarray<uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

DType parse_page_dtype(const std::string& name) {
  if (name == "float32") return DType::kF32;
  if (name == "float16") return DType::kF16;
  if (name == "bfloat16") return DType::kBF16;
  if (name == "int16") return DType::kI16;
  if (name == "int8") return DType::kI8;
  throw std::invalid_argument("dtype is \"" + name +
                              "\"; \"float32\", \"float16\", \"bfloat16\", \"int16\" and "
                              "\"int8\" are allowed");
}

void init_kv_cache(KvCache* self, int64_t num_pages,
                   const std::vector<std::pair<int64_t, int64_t>>& layers, const std::string& dtype,
                   const std::optional<std::vector<std::pair<int64_t, int64_t>>>& places) {
  if (places && places->size() != layers.size()) {
    throw std::invalid_argument("there are " + std::to_string(places->size()) + " places for " +
                                std::to_string(layers.size()) + " layers");
  }
  std::vector<KvCache::LayerShape> shapes;
  for (size_t i = 0; i < layers.size(); ++i) {
    const auto [num_kv_heads, head_dim] = layers[i];
    const auto [group, shelf] = places ? (*places)[i] : std::pair(int64_t{0}, int64_t(i));
    shapes.push_back({num_kv_heads, head_dim, group, shelf});
  }
  new (self) KvCache(num_pages, shapes, parse_page_dtype(dtype));
}

void check_page(const KvCache& cache, int64_t page) {
  if (page < 0 || page >= cache.num_pages()) {
    throw std::invalid_argument("page is " + std::to_string(page) + " of " +
                                std::to_string(cache.num_pages()));
  }
}

void check_size(const KvCache& cache, size_t num_bytes) {
  if (num_bytes != static_cast<size_t>(cache.page_bytes())) {
    throw std::invalid_argument("the buffer has " + std::to_string(num_bytes) +
                                " bytes; a page has " + std::to_string(cache.page_bytes()));
  }
}

NumpyF32 read_numbers(const KvCache& cache, int64_t layer_index, int64_t page) {
  const KvLayer& layer = cache.layer(layer_index);
  check_page(cache, page);
  const auto heads = static_cast<size_t>(layer.num_kv_heads);
  const auto half = static_cast<size_t>(layer.head_dim) * kPageTokens;
  NumpyF32 out = new_array<float>({heads, 2, half});
  read_page(layer, page, out.data());
  return out;
}

void copy_page(KvCache& cache, int64_t source, int64_t target) {
  check_page(cache, source);
  check_page(cache, target);
  cache.copy_page(source, target);
}

void save_page(const KvCache& cache, int64_t page, const WritableBytes& out) {
  check_page(cache, page);
  check_size(cache, out.size());
  cache.save_page(page, reinterpret_cast<std::byte*>(out.data()));
}

void load_page(KvCache& cache, int64_t page, const Array<uint8_t, 1>& data) {
  check_page(cache, page);
  check_size(cache, data.size());
  cache.load_page(page, reinterpret_cast<const std::byte*>(data.data()));
}

}  // namespace

void bind_kv_cache(nb::module_& m) {
  nb::class_<KvCache>(m, "KvCache")
      .def("__init__", &init_kv_cache, nb::arg("num_pages"), nb::arg("layers"), nb::arg("dtype"),
           nb::arg("places") = nb::none())
      .def_prop_ro("num_bytes", &KvCache::num_bytes)
      .def_prop_ro("page_bytes", &KvCache::page_bytes)
      .def("read_page", &read_numbers, nb::arg("layer"), nb::arg("page"))
      .def("copy_page", &copy_page, nb::arg("source"), nb::arg("target"))
      .def("save_page", &save_page, nb::arg("page"), nb::arg("out").noconvert())
      .def("load_page", &load_page, nb::arg("page"), nb::arg("data").noconvert());
}

}  // namespace octavo
