// Choosing one token from one row of adjusted logits when it asks for more than temperature, min_p,
// top_k and top_p. One per worker; owns memory for one vocabulary. Slower than TokenDraw and the
// same on every level: plain loops, sums of weights exact, others in double precision by rising id.
//
// The order is fixed: top_n_sigma, (dynamic) temperature, min_p, top_k, typical_p, top_p, XTC,
// mirostat, the draw.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/filter_row.h"
#include "runtime/token_draw.h"

namespace octavo {

struct FilteredToken {
  int32_t id;       // 0 when no logit is usable
  double surprise;  // -log2 of its probability among those kept
};

class TokenFilters {
 public:
  TokenFilters(const RowPasses& passes, int64_t vocab_size);

  // `xtc_uniform` in [0, 1) decides whether XTC acts.
  FilteredToken choose(const float* logits, const DrawParameters& parameters, const FilterRow& row,
                       double xtc_uniform);
  // The largest logit that the last choose() saw, before the temperature.
  float max() const { return max_; }

 private:
  struct Token {
    float logit;  // minus the largest, once weighed
    int32_t id;
    Mass weight;  // exp(logit)
    double key;   // what an order goes by, smallest first
  };
  static double probability(const Token& token, Mass total);
  static bool comes_before(const Token& a, const Token& b);

  void gather(const float* logits);
  FilteredToken take_largest() const;
  // Tang et al., "Top-nσ", 2024: keeps what is within n standard deviations of the largest logit.
  void cut_to_sigma(double n);
  // The temperature by how even the distribution is (llama.cpp's dynatemp).
  float temperature_of(float temperature, const FilterRow& row) const;
  void scale(float temperature);
  float scaled_max() const;
  // Makes logits differences from the largest, weighs those of at least log_min and keeps those
  // that weigh something.
  void weigh_kept(float log_min);
  void order_by_weight();
  // Meister et al., "Locally typical sampling", 2022: by distance of surprise from entropy.
  void order_by_typicality();
  // Keeps the first `count` in the order of keys; ties by falling logit, then rising id.
  void cut_to_count(int64_t count);
  // Keeps the fewest first ones in that order that have this share of the mass of all.
  void cut_to_share(double share);
  // p-e-w, "XTC", 2024: of several tokens of probability `threshold` only the least stays.
  void exclude_top_choices(double threshold);
  // Basu et al., "Mirostat", 2021, version 2: keeps what surprises by at most `mu` bits.
  void cut_to_surprise(double mu);

  const RowPasses& passes_;
  const int64_t vocab_size_;
  float max_ = 0;
  std::vector<Token> kept_;
};

}  // namespace octavo
