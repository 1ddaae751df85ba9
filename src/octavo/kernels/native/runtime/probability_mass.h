// Where, of weighted tokens in a given order, the first ones reach a mass. Owns no tokens.
#pragma once

#include <algorithm>
#include <cstdint>

namespace octavo {

// Orders just so much of [first, last) by `comes_before` that its beginning holds the fewest first
// tokens that weigh at least `mass` together, and returns the last of these; `last` when all weigh
// less. Halves the part in question instead of sorting it: many equal weights come here.
template <typename Iterator, typename Order>
Iterator find_mass(Iterator first, Iterator last, double mass, const Order& comes_before) {
  constexpr int64_t kSortedLength = 64;
  const Iterator end = last;
  double cumulative = 0;
  while (last - first > kSortedLength) {
    const Iterator middle = first + (last - first) / 2;
    std::nth_element(first, middle, last, comes_before);
    double upper = 0;
    for (Iterator token = first; token != middle; ++token) {
      upper += static_cast<double>(token->weight);
    }
    if (cumulative + upper >= mass) {
      last = middle;
    } else {
      cumulative += upper;
      first = middle;
    }
  }
  std::sort(first, last, comes_before);
  for (; first != last; ++first) {
    cumulative += static_cast<double>(first->weight);
    if (cumulative >= mass) return first;
  }
  return last == end ? end : last - 1;  // sums in another order may round below the mass
}

}  // namespace octavo
