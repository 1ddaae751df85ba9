// Shares the rows, or spans of columns, of an instruction among the workers. Knows nothing of what
// is computed, which must not depend on the sharing.
#pragma once

#include <cstdint>

#include "octavo/program.h"

namespace octavo::OCTAVO_LEVEL {

// body(first, last) for chunks of [0, rows): small enough to even out the workers, not smaller.
template <class Body>
inline void for_row_chunks(const KernelCall& call, Body body) {
  const int64_t rows = call.rows();
  const int64_t chunk = rows / (8 * call.num_workers) + 1;
  const int64_t chunks = (rows + chunk - 1) / chunk;
  for (int64_t i = call.next_of(chunks); i < chunks; i = call.next_of(chunks)) {
    const int64_t first = i * chunk;
    body(first, first + chunk < rows ? first + chunk : rows);
  }
}

// body(row, first_column, num_columns): for work that goes element by element on rows that may be
// as wide as a vocabulary.
template <class Body>
inline void for_spans(const KernelCall& call, int64_t width, Body body) {
  constexpr int64_t kSpan = 4096;
  const int64_t spans = (width + kSpan - 1) / kSpan;
  const int64_t items = spans * call.rows();
  for (int64_t item = call.next_of(items); item < items; item = call.next_of(items)) {
    const int64_t column = item % spans * kSpan;
    body(item / spans, column, width - column < kSpan ? width - column : kSpan);
  }
}

}  // namespace octavo::OCTAVO_LEVEL
