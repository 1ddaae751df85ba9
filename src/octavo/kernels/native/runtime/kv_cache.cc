// Sizes of pages and layers, and whole pages on the move.
#include "runtime/kv_cache.h"

#include <cstring>
#include <stdexcept>
#include <string>

#include "formats/half.h"
#include "octavo/limits.h"

namespace octavo {

namespace {

constexpr int64_t kMaxHeads = 4096;
constexpr int64_t kMaxPages = INT32_MAX;
constexpr int64_t kMaxLayers = 4096;

void check(const char* what, int64_t value, int64_t limit) {
  if (value < 1 || value > limit) {
    throw std::invalid_argument(std::string(what) + " is " + std::to_string(value) + "; 1 to " +
                                std::to_string(limit) + " are allowed");
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
  for (const LayerShape& shape : shapes) {
    int64_t layer_bytes;
    if (__builtin_mul_overflow(bytes_of(shape, dtype), num_pages, &layer_bytes) ||
        __builtin_add_overflow(total, layer_bytes, &total)) {
      throw std::bad_alloc();
    }
  }
  memory_ = MappedMemory(total);
  std::byte* data = memory_.data();
  for (const LayerShape& shape : shapes) {
    const int64_t bytes = bytes_of(shape, dtype);
    layers_.push_back({dtype, static_cast<int32_t>(shape.num_kv_heads),
                       static_cast<int32_t>(shape.head_dim), num_pages, bytes, data});
    data += bytes * num_pages;
    page_bytes_ += bytes;
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
  for (const KvLayer& layer : layers_) {
    std::memcpy(layer.data + target * layer.page_bytes, layer.data + source * layer.page_bytes,
                static_cast<size_t>(layer.page_bytes));
  }
}

void KvCache::save_page(int64_t page, std::byte* out) const {
  for (const KvLayer& layer : layers_) {
    std::memcpy(out, layer.data + page * layer.page_bytes, static_cast<size_t>(layer.page_bytes));
    out += layer.page_bytes;
  }
}

void KvCache::load_page(int64_t page, const std::byte* data) {
  for (const KvLayer& layer : layers_) {
    std::memcpy(layer.data + page * layer.page_bytes, data, static_cast<size_t>(layer.page_bytes));
    data += layer.page_bytes;
  }
}

}  // namespace octavo
