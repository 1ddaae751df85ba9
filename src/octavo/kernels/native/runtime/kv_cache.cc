// Sizes of pages and layers, and whole pages on the move.
#include "runtime/kv_cache.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>

#include "formats/half.h"
#include "octavo/limits.h"

namespace octavo {

namespace {

constexpr int64_t kMaxHeads = 4096;
constexpr int64_t kMaxPages = INT32_MAX;
constexpr int64_t kMaxLayers = 4096;

void check(const char* what, int64_t value, int64_t limit, int64_t least = 1) {
  if (value < least || value > limit) {
    throw std::invalid_argument(std::string(what) + " is " + std::to_string(value) + "; " +
                                std::to_string(least) + " to " + std::to_string(limit) +
                                " are allowed");
  }
}

int64_t bytes_of(const KvCache::LayerShape& shape, DType dtype) {
  check("num_kv_heads", shape.num_kv_heads, kMaxHeads);
  check("head_dim", shape.head_dim, kMaxHeadDim);
  if (shape.head_dim % kPageTokens != 0) {
    throw std::invalid_argument("head_dim is " + std::to_string(shape.head_dim) +
                                "; multiples of 16 are allowed");
  }
  return shape.num_kv_heads * 2 * page_half_bytes(dtype, shape.head_dim);
}

// Bytes of a page on each shelf.
std::vector<int64_t> shelf_bytes(const std::vector<KvCache::LayerShape>& shapes, DType dtype) {
  std::vector<int64_t> bytes;
  std::set<std::pair<int64_t, int64_t>> places;
  for (const KvCache::LayerShape& shape : shapes) {
    check("the group", shape.group, kMaxLayers - 1, 0);
    check("the shelf", shape.shelf, kMaxLayers - 1, 0);
    if (!places.emplace(shape.group, shape.shelf).second) {
      throw std::invalid_argument("two layers of group " + std::to_string(shape.group) +
                                  " are on shelf " + std::to_string(shape.shelf));
    }
    const auto shelf = static_cast<size_t>(shape.shelf);
    if (shelf >= bytes.size()) bytes.resize(shelf + 1);
    bytes[shelf] = std::max(bytes[shelf], bytes_of(shape, dtype));
  }
  return bytes;
}

float element(DType dtype, const std::byte* p) {
  switch (dtype) {
    case DType::kF32:
      return *reinterpret_cast<const float*>(p);
    case DType::kF16:
      return f16_to_f32(*reinterpret_cast<const uint16_t*>(p));
    case DType::kBF16:
      return bf16_to_f32(*reinterpret_cast<const uint16_t*>(p));
    case DType::kI16:
      return *reinterpret_cast<const int16_t*>(p);
    default:
      return *reinterpret_cast<const int8_t*>(p);
  }
}

// Where in a page's half the element of a token and column is; is_values tells which half.
int64_t element_index(const KvLayer& layer, bool is_values, int64_t token, int64_t column) {
  const int64_t rows_of = is_values ? token : column, columns_of = is_values ? column : token;
  const int64_t width = is_values ? layer.head_dim : kPageTokens;
  if (!has_scales(layer.dtype)) return rows_of * width + columns_of;
  return (rows_of / 2 * width + columns_of) * 2 + rows_of % 2;
}

}  // namespace

void read_page(const KvLayer& layer, int64_t page, float* out) {
  const int64_t size = element_bytes(layer.dtype), count = int64_t{layer.head_dim} * kPageTokens;
  const int64_t half_bytes = page_half_bytes(layer.dtype, layer.head_dim);
  const std::byte* half = layer.data + page * layer.page_bytes;
  for (int h = 0; h < 2 * layer.num_kv_heads; ++h, half += half_bytes) {
    const bool is_values = h % 2 != 0;
    const auto* scales = reinterpret_cast<const float*>(half + count * size);
    for (int64_t i = 0; i < count; ++i, ++out) {
      const int64_t token = is_values ? i / layer.head_dim : i % kPageTokens;
      const int64_t column = is_values ? i % layer.head_dim : i / kPageTokens;
      *out = element(layer.dtype, half + element_index(layer, is_values, token, column) * size);
      if (has_scales(layer.dtype)) *out *= scales[token];
    }
  }
}

KvCache::KvCache(int64_t num_pages, const std::vector<LayerShape>& shapes, DType dtype) {
  check("num_pages", num_pages, kMaxPages);
  check("the number of layers", static_cast<int64_t>(shapes.size()), kMaxLayers);
  if (dtype == DType::kQ8) {
    throw std::invalid_argument("pages hold float32, float16, bfloat16, int16 or int8");
  }
  int64_t total = 0;
  const std::vector<int64_t> page_bytes = shelf_bytes(shapes, dtype);
  for (const int64_t bytes : page_bytes) {
    int64_t all_pages;
    if (__builtin_mul_overflow(bytes, num_pages, &all_pages) ||
        __builtin_add_overflow(total, all_pages, &total)) {
      throw std::bad_alloc();
    }
    page_bytes_ += bytes;
  }
  memory_ = MappedMemory(total);
  std::byte* data = memory_.data();
  for (const int64_t bytes : page_bytes) {
    shelves_.push_back({data, bytes});
    data += bytes * num_pages;
  }
  for (const LayerShape& shape : shapes) {
    const Shelf& shelf = shelves_[static_cast<size_t>(shape.shelf)];
    layers_.push_back({dtype, static_cast<int32_t>(shape.num_kv_heads),
                       static_cast<int32_t>(shape.head_dim), static_cast<int32_t>(shape.group),
                       num_pages, shelf.page_bytes, shelf.data});
  }
}

const KvLayer& KvCache::layer(int64_t index) const {
  const auto count = static_cast<int64_t>(layers_.size());
  if (index < 0 || index >= count) {
    throw std::invalid_argument("layer is " + std::to_string(index) + " of " +
                                std::to_string(count));
  }
  return layers_[static_cast<size_t>(index)];
}

void KvCache::copy_page(int64_t source, int64_t target) {
  if (source == target) return;
  for (const Shelf& shelf : shelves_) {
    std::memcpy(shelf.page(target), shelf.page(source), static_cast<size_t>(shelf.page_bytes));
  }
}

void KvCache::save_page(int64_t page, std::byte* out) const {
  for (const Shelf& shelf : shelves_) {
    std::memcpy(out, shelf.page(page), static_cast<size_t>(shelf.page_bytes));
    out += shelf.page_bytes;
  }
}

void KvCache::load_page(int64_t page, const std::byte* data) {
  for (const Shelf& shelf : shelves_) {
    std::memcpy(shelf.page(page), data, static_cast<size_t>(shelf.page_bytes));
    data += shelf.page_bytes;
  }
}

}  // namespace octavo
