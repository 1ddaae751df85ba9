// Checking, allocating and filling packed weights, tile ranges spread over the workers.
#include "runtime/matrix.h"

#include <algorithm>
#include <atomic>
#include <new>
#include <stdexcept>
#include <string>

#include "formats/packed.h"

namespace octavo {

namespace {

[[noreturn]] void refuse(const std::string& message) { throw std::invalid_argument(message); }

// Bytes of one row; `columns` must be whole blocks.
int64_t source_row_bytes(WeightFormat type, int64_t columns) {
  const int64_t values = block_values(type);
  if (columns < 1 || columns > INT32_MAX || columns % values != 0) {
    refuse("a row of " + std::to_string(columns) + " values of " + format_name(type) +
           " is not a positive number of blocks of " + std::to_string(values));
  }
  return columns / values * block_bytes(type);
}

void check_row_order(const MatrixSource& source, int64_t rows, int64_t row_bytes) {
  const int64_t source_rows = source.num_bytes / row_bytes;
  if (source.num_bytes % row_bytes != 0) {
    refuse(std::to_string(source.num_bytes) + " bytes are no whole number of rows of " +
           std::to_string(row_bytes) + " bytes");
  }
  for (int64_t i = 0; i < rows; ++i) {
    const int32_t row = source.row_order[i];
    if (row < 0 || row >= source_rows) {
      refuse("row_order[" + std::to_string(i) + "] is " + std::to_string(row) + " of " +
             std::to_string(source_rows) + " source rows");
    }
  }
}

void check_target(WeightFormat source, WeightFormat target, int64_t columns) {
  const bool rounds = is_float(source) && can_quantize(target);
  if (target != source && !is_float(target) && !rounds) {
    const char* const quantised = is_float(source) ? ", Q8_0, Q4_0, Q4_1, Q4_K" : "";
    refuse(std::string(format_name(source)) + " packs as itself, F32, F16, BF16" + quantised +
           ", not as " + format_name(target));
  }
  if (!columns_fit(target, columns)) {
    refuse(std::to_string(columns) + " columns do not fit the packed format " +
           format_name(target));
  }
}

PackedMatrix packed_shape(WeightFormat format, int64_t rows, int64_t columns) {
  const int64_t num_tiles = (rows + kTileColumns - 1) / kTileColumns;
  return {format, rows, columns, num_tiles, packed_tile_bytes(format, columns), nullptr};
}

}  // namespace

WeightFormat parse_format(std::string_view name) {
  WeightFormat format;
  if (!format_from_name(name, format)) {
    refuse("\"" + std::string(name) + "\" is not a tensor type that octavo reads");
  }
  return format;
}

void check_source(WeightFormat type, int64_t num_bytes, int64_t rows, int64_t columns) {
  const int64_t row_bytes = source_row_bytes(type, columns);
  int64_t wanted;
  if (rows < 1 || rows > INT32_MAX || __builtin_mul_overflow(rows, row_bytes, &wanted) ||
      wanted != num_bytes) {
    refuse(std::to_string(num_bytes) + " bytes do not hold " + std::to_string(rows) + " rows of " +
           std::to_string(columns) + " values of " + format_name(type));
  }
}

Matrix::Matrix(ThreadPool& pool, WeightMemory& memory, const MatrixSource& source, int64_t rows,
               int64_t columns, WeightFormat target, RoundRow round) {
  if (source.row_order == nullptr) {
    check_source(source.type, source.num_bytes, rows, columns);
  } else {
    check_row_order(source, rows, source_row_bytes(source.type, columns));
  }
  check_target(source.type, target, columns);
  packed_ = packed_shape(target, rows, columns);
  int64_t bytes;
  if (__builtin_mul_overflow(packed_.num_tiles, packed_.tile_bytes, &bytes)) throw std::bad_alloc();
  memory_ = memory.take(bytes);
  packed_.data = memory_.get();
  constexpr int64_t kTilesPerItem = 8;
  std::atomic<int64_t> next{0};
  pool.run([&](int, int64_t) {
    for (int64_t tile; (tile = next.fetch_add(kTilesPerItem)) < packed_.num_tiles;) {
      pack_tiles(source.type, source.data, source.row_order, round, packed_, tile,
                 std::min(tile + kTilesPerItem, packed_.num_tiles));
    }
  });
}

}  // namespace octavo
