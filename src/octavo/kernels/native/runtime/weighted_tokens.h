// Tokens and what they weigh: weighing them, cutting a list of them to a mass, and drawing one. All
// sums are exact, so nothing here depends on the order of a list. A token is any struct with a
// `logit`, an `id` and a `weight`. Knows nothing of vocabularies, filters or rows.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "octavo/row_passes.h"

namespace octavo {

constexpr float weight_of(Mass mass) { return static_cast<float>(mass) * kWeightStep; }

// The least mass that is at least `share`, above 0 and below 1, of `whole`.
inline Mass share_of(Mass whole, double share) {
  return std::min(whole, static_cast<Mass>(std::ceil(share * static_cast<double>(whole))));
}

// Whoever stands where a cumulative weight first exceeds this is drawn. `uniform` is in [0, 1).
inline Mass drawn_mass(Mass whole, double uniform) {
  return std::min(whole - 1, static_cast<Mass>(uniform * static_cast<double>(whole)));
}

// Weighs the tokens against a logit of `max` and returns the sum.
template <typename Token>
Mass weigh(const RowPasses& passes, float max, std::vector<Token>& tokens) {
  float logits[kLogitBlock], weights[kLogitBlock];
  Mass total = 0;
  for (size_t first = 0; first < tokens.size(); first += kLogitBlock) {
    const size_t count = std::min(static_cast<size_t>(kLogitBlock), tokens.size() - first);
    for (size_t i = 0; i < count; ++i) logits[i] = tokens[first + i].logit;
    total += passes.weights(logits, static_cast<int64_t>(count), 1.0f, max, kLogMinWeight, weights);
    for (size_t i = 0; i < count; ++i) tokens[first + i].weight = mass_of(weights[i]);
  }
  return total;
}

template <typename Token>
Mass total_mass(const std::vector<Token>& tokens) {
  Mass total = 0;
  for (const Token& token : tokens) total += token.weight;
  return total;
}

// Keeps the fewest first tokens, in the order of `comes_before`, that weigh at least `mass`
// together, in any order. False, and all are kept, when all weigh less. Halves the part in question
// instead of sorting it: many equal weights come here.
template <typename Token, typename Order>
bool cut_to_mass(std::vector<Token>& tokens, Mass mass, const Order& comes_before) {
  constexpr int64_t kSortedLength = 64;
  auto first = tokens.begin(), last = tokens.end();
  while (last - first > kSortedLength) {
    const auto middle = first + (last - first) / 2;
    std::nth_element(first, middle, last, comes_before);
    Mass upper = 0;
    for (auto token = first; token != middle; ++token) upper += token->weight;
    if (upper >= mass) {
      last = middle;
    } else {
      mass -= upper;
      first = middle;
    }
  }
  std::sort(first, last, comes_before);
  for (; first != last; ++first) {
    mass -= first->weight;
    if (mass > 0) continue;
    tokens.erase(first + 1, tokens.end());
    return true;
  }
  return false;
}

template <typename Token>
void order_by_id(std::vector<Token>& tokens) {
  std::sort(tokens.begin(), tokens.end(),
            [](const Token& a, const Token& b) { return a.id < b.id; });
}

// The first token, by rising id, at which the cumulative weight exceeds `uniform` of the whole,
// which is above 0. `uniform` is in [0, 1).
template <typename Token>
const Token& draw(std::vector<Token>& tokens, double uniform) {
  order_by_id(tokens);
  Mass rest = drawn_mass(total_mass(tokens), uniform);
  auto token = tokens.begin();
  while (token->weight <= rest) rest -= (token++)->weight;
  return *token;
}

}  // namespace octavo
