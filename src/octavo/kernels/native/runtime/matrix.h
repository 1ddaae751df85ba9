// Packed weights that hold their memory: sizes are checked here before anything is allocated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "formats/pack.h"
#include "octavo/round_row.h"
#include "octavo/types.h"
#include "runtime/thread_pool.h"
#include "runtime/weight_memory.h"

namespace octavo {

// A row-major GGUF tensor. Row i of the matrix is source row row_order[i], or i when that is null.
struct MatrixSource {
  WeightFormat type;
  const std::byte* data;
  int64_t num_bytes;
  const int32_t* row_order;
};

class Matrix {
 public:
  // `round` makes the target's rows of another source's. Throws std::invalid_argument when sizes or
  // formats do not fit each other.
  Matrix(ThreadPool& pool, WeightMemory& memory, const MatrixSource& source, int64_t rows,
         int64_t columns, WeightFormat target, RoundRow round);

  const PackedMatrix& packed() const { return packed_; }
  int64_t num_bytes() const { return packed_.num_tiles * packed_.tile_bytes; }

 private:
  std::shared_ptr<std::byte> memory_;
  PackedMatrix packed_;
};

// Throws std::invalid_argument for an unknown name.
WeightFormat parse_format(std::string_view name);
// Throws std::invalid_argument unless `num_bytes` holds exactly `rows` rows of `columns` values.
void check_source(WeightFormat type, int64_t num_bytes, int64_t rows, int64_t columns);

}  // namespace octavo
