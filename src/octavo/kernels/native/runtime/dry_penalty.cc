// Finding repetitions of the history's tail in linear time.
#include "runtime/dry_penalty.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace octavo {

namespace {

constexpr double kLargest = std::numeric_limits<float>::max();

}  // namespace

DryPenalty::DryPenalty(int64_t vocab_size)
    : first_breaker_(static_cast<size_t>(vocab_size)), longest_(static_cast<size_t>(vocab_size)) {}

void DryPenalty::reserve(int64_t history_size) {
  const auto size = static_cast<size_t>(history_size);
  if (matches_.size() < size) matches_.resize(size);
}

void DryPenalty::apply(const FilterRow& row, const int32_t* history, int64_t count,
                       const int32_t* breakers, int64_t num_breaker_ids, float* logits) {
  if (count < 2) return;
  index_breakers(breakers, num_breaker_ids, 1);
  match_tail(history, count, unbroken_length(history, count, breakers, num_breaker_ids));
  const auto allowed = row.dry_allowed_length;
  for (int64_t i = 1; i < count; ++i) {
    int32_t& longest = longest_[static_cast<size_t>(history[count - i])];
    longest = std::max(longest, matches_[static_cast<size_t>(i)]);
  }
  for (int64_t i = 1; i < count; ++i) {
    const int32_t token = history[count - i];
    int32_t& longest = longest_[static_cast<size_t>(token)];
    if (longest >= allowed && !is_breaker_alone(token, breakers)) {
      const double power = std::pow(static_cast<double>(row.dry_base), longest - allowed);
      logits[token] -= row.dry_multiplier * static_cast<float>(std::min(power, kLargest));
    }
    longest = 0;
  }
  index_breakers(breakers, num_breaker_ids, 0);
}

void DryPenalty::index_breakers(const int32_t* breakers, int64_t count, int32_t mark) {
  for (int64_t i = 0; i < count; ++i) {
    int32_t& first = first_breaker_[static_cast<size_t>(breakers[i])];
    if (first == 0 || mark == 0) first = mark * static_cast<int32_t>(i + 1);
    while (breakers[i] >= 0) ++i;
  }
}

// In rising order the shortest comes first.
bool DryPenalty::is_breaker_alone(int32_t token, const int32_t* breakers) const {
  const int32_t first = first_breaker_[static_cast<size_t>(token)];
  return first > 0 && breakers[first] < 0;
}

int64_t DryPenalty::unbroken_length(const int32_t* history, int64_t count, const int32_t* breakers,
                                    int64_t num_breaker_ids) const {
  for (int64_t at = count - 1; at >= 0; --at) {
    const int64_t length = breaker_length(history, at, count, breakers, num_breaker_ids);
    if (length > 0) return count - at - length;
  }
  return count;
}

int64_t DryPenalty::breaker_length(const int32_t* history, int64_t at, int64_t count,
                                   const int32_t* breakers, int64_t num_breaker_ids) const {
  int64_t longest = -1, i = first_breaker_[static_cast<size_t>(history[at])] - 1;
  while (i >= 0 && i < num_breaker_ids && breakers[i] == history[at]) {
    const int64_t begin = i;
    bool equal = true;
    for (; breakers[i] >= 0; ++i) {
      const int64_t place = at + i - begin;
      equal = equal && place < count && history[place] == breakers[i];
    }
    if (equal) longest = std::max(longest, i - begin);
    ++i;
  }
  return longest;
}

// The Z algorithm (Gusfield, "Algorithms on strings, trees, and sequences", 1997) from the end.
void DryPenalty::match_tail(const int32_t* history, int64_t count, int64_t limit) {
  const int32_t* last = history + count - 1;
  int64_t left = 0, right = 0;  // the found match [left, right) that reaches furthest
  for (int64_t i = 1; i < count; ++i) {
    int64_t length = 0;
    if (i < right) length = std::min<int64_t>(right - i, matches_[static_cast<size_t>(i - left)]);
    while (i + length < count && last[-length] == last[-(i + length)]) ++length;
    matches_[static_cast<size_t>(i)] = static_cast<int32_t>(length);
    if (i + length > right) {
      left = i;
      right = i + length;
    }
  }
  for (int64_t i = 1; i < count; ++i) {
    int32_t& length = matches_[static_cast<size_t>(i)];
    length = static_cast<int32_t>(std::min<int64_t>(length, limit));
  }
}

}  // namespace octavo
