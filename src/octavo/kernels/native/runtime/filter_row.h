// What a row asks of the sampler beyond SampleRow: plain data, shared by the files that act on it.
// Knows no arithmetic.
#pragma once

#include <cstdint>

namespace octavo {

// Belongs to one SampleRow, of number `row`. Layout = kFilterRowFormat (Python's struct notation).
struct FilterRow {
  double top_n_sigma;        // not above 0: all
  double dynatemp_range;     // 0: the temperature itself
  double dynatemp_exponent;  // above 0
  double typical_p;          // 1: all
  double xtc_probability;    // 0: never
  double xtc_threshold;
  double mirostat_mu;    // bits of surprise that are allowed; infinite: no mirostat
  float dry_multiplier;  // 0: no DRY penalty
  float dry_base;
  int32_t dry_allowed_length;
  int32_t row;
  int32_t dry_begin;  // within the row's history, where DRY starts to look
  // Range of FilterInput::ids: sequence breakers in rising order, each followed by -1.
  int32_t breakers_begin, breakers_end;
  int32_t padding;
};
inline constexpr const char* kFilterRowFormat = "=7d2f5i4x";
static_assert(sizeof(FilterRow) == 88);

struct FilterInput {
  const FilterRow* rows = nullptr;  // by rising `row`, no two of the same
  int64_t num_rows = 0;
  const int32_t* ids = nullptr;
  int64_t num_ids = 0;
};

}  // namespace octavo
