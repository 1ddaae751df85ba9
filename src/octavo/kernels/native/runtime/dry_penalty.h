// DRY ("don't repeat yourself", p-e-w 2024, as in llama.cpp): a token that would prolong a
// repetition loses the more the longer that has become. One per worker. Knows one row's history and
// logits, no other penalty.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/filter_row.h"

namespace octavo {

class DryPenalty {
 public:
  explicit DryPenalty(int64_t vocab_size);

  // Takes memory for a history of so many tokens.
  void reserve(int64_t history_size);
  // Of history [0, count), let a repetition be a place j >= 1 where the tokens before j equal the
  // last ones of the history; its length is how many, counted back no further than the nearest
  // sequence breaker. Then logits[history[j]] loses multiplier * base^(length - allowed_length), of
  // the longest with that token; nothing where that is negative or the token alone is a breaker.
  // `breakers` as in FilterRow.
  void apply(const FilterRow& row, const int32_t* history, int64_t count, const int32_t* breakers,
             int64_t num_breaker_ids, float* logits);

 private:
  void index_breakers(const int32_t* breakers, int64_t count, int32_t mark);
  bool is_breaker_alone(int32_t token, const int32_t* breakers) const;
  // How many of the last tokens come after the nearest breaker.
  int64_t unbroken_length(const int32_t* history, int64_t count, const int32_t* breakers,
                          int64_t num_breaker_ids) const;
  // Ids of the longest breaker that begins at history[at] and ends within it, -1 if none does.
  int64_t breaker_length(const int32_t* history, int64_t at, int64_t count, const int32_t* breakers,
                         int64_t num_breaker_ids) const;
  // matches_[i] = how many tokens before count - i equal the last ones, at most `limit`.
  void match_tail(const int32_t* history, int64_t count, int64_t limit);

  std::vector<int32_t> first_breaker_;  // by first token: 1 + where the first of them stands, or 0
  std::vector<int32_t> longest_;        // by token, zero between rows
  std::vector<int32_t> matches_;
};

}  // namespace octavo
