// Weak stand-ins so that the extension links until formats/*.cc land; any real definition replaces
// them. To be deleted with that commit.
#include <stdexcept>

#include "formats/pack.h"

#define PENDING __attribute__((weak))

namespace octavo {

PENDING bool format_from_name(std::string_view, WeightFormat&) { return false; }
PENDING const char* format_name(WeightFormat) { return "?"; }
PENDING int64_t block_values(WeightFormat) { return 1; }
PENDING int64_t block_bytes(WeightFormat) { return 1; }
PENDING void dequantize(WeightFormat, const std::byte*, int64_t, float*) {
  throw std::logic_error("formats are not built yet");
}
PENDING int64_t packed_tile_bytes(WeightFormat, int64_t) { return 0; }
PENDING bool columns_fit(WeightFormat, int64_t) { return false; }
PENDING void pack_tiles(WeightFormat, const std::byte*, const int32_t*, const PackedMatrix&,
                        int64_t, int64_t) {}
PENDING void unpack_row(const PackedMatrix&, int64_t, float*) {}

}  // namespace octavo
