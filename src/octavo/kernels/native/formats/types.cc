// Names and sizes of the tensor types.
#include "formats/gguf_blocks.h"
#include "formats/pack.h"
#include "formats/packed.h"

namespace octavo {
namespace {

struct TypeFacts {
  const char* name;
  int block_values;
  int block_bytes;
};

// In the order of WeightFormat.
constexpr TypeFacts kTypes[] = {
    {"F32", 1, 4},
    {"F16", 1, 2},
    {"BF16", 1, 2},
    {"Q4_0", gguf::Q4_0::kValues, sizeof(gguf::Q4_0)},
    {"Q4_1", gguf::Q4_1::kValues, sizeof(gguf::Q4_1)},
    {"Q5_0", gguf::Q5_0::kValues, sizeof(gguf::Q5_0)},
    {"Q5_1", gguf::Q5_1::kValues, sizeof(gguf::Q5_1)},
    {"Q8_0", gguf::Q8_0::kValues, sizeof(gguf::Q8_0)},
    {"Q4_K", gguf::Q4_K::kValues, sizeof(gguf::Q4_K)},
    {"Q5_K", gguf::Q5_K::kValues, sizeof(gguf::Q5_K)},
    {"Q6_K", gguf::Q6_K::kValues, sizeof(gguf::Q6_K)},
};

const TypeFacts& facts(WeightFormat type) { return kTypes[static_cast<int>(type)]; }

}  // namespace

bool format_from_name(std::string_view name, WeightFormat& out) {
  for (int i = 0; i < static_cast<int>(sizeof(kTypes) / sizeof(kTypes[0])); ++i) {
    if (name == kTypes[i].name) {
      out = static_cast<WeightFormat>(i);
      return true;
    }
  }
  return false;
}

const char* format_name(WeightFormat format) { return facts(format).name; }
int64_t block_values(WeightFormat type) { return facts(type).block_values; }
int64_t block_bytes(WeightFormat type) { return facts(type).block_bytes; }

int64_t packed_tile_bytes(WeightFormat format, int64_t columns) {
  if (is_float(format)) {
    const int64_t bytes = (columns + 1) / 2 * 2 * kTileColumns * block_bytes(format);
    return (bytes + kLineBytes - 1) / kLineBytes * kLineBytes;
  }
  const BlockLayout layout = block_layout(format);
  const int64_t features = static_cast<int64_t>(layout.groups) * kGroup;
  return (columns + features - 1) / features * layout.bytes();
}

bool columns_fit(WeightFormat format, int64_t columns) {
  return columns > 0 && columns % block_values(format) == 0;
}

}  // namespace octavo
