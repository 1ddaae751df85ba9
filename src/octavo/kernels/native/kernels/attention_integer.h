// The arithmetic of attention over pages of integers: scores, and weighted values of 32 tokens at a
// time, are exact sums of products of int16, two to an instruction, so that their order is free. A
// query, like a key, has one scale; the weights that the softmax gives one query in a piece, each
// times its value's scale, share one, too (the idea of arXiv:2410.02367, with 16 bits for 8).
#pragma once

#include <cstdint>

#include "kernels/attention_piece.h"
#include "kernels/code_scale.h"
#include "kernels/exp2.h"
#include "simd/pairs.h"
#include "simd/vec.h"

namespace octavo::OCTAVO_LEVEL {

// scores[n][0 .. 16 P) = q_n . k over P pages, but for the query's scale.
template <class T, int N, int P>
  requires(kHasScales<T>)
inline void score_pages(const PieceWork<T>& work, int page) {
  const T* const* keys = work.keys + page;
  float* scores = work.scores + page * kPageTokens;
  I32x16 sums[N][P];
#pragma GCC unroll 12
  for (int n = 0; n < N; ++n) {
#pragma GCC unroll 12
    for (int p = 0; p < P; ++p) sums[n][p] = zero_i32();
  }
  for (int d = 0; d < work.head_dim; d += 2) {
    if constexpr (fetches_beside(N)) work.template fetch_beside_keys<P>(page, d * kPageTokens);
    I16x32 lines[P];
#pragma GCC unroll 12
    for (int p = 0; p < P; ++p) lines[p] = load_pairs(&keys[p][d * kPageTokens].value);
#pragma GCC unroll 12
    for (int n = 0; n < N; ++n) {
#pragma GCC unroll 12
      for (int p = 0; p < P; ++p) {
        sums[n][p] = dot_pairs(sums[n][p], lines[p], work.queries + n * kQueryStride + d);
      }
    }
  }
#pragma GCC unroll 12
  for (int p = 0; p < P; ++p) {
    const F32x16 scales = load(scales_of(keys[p], work.head_dim));
#pragma GCC unroll 12
    for (int n = 0; n < N; ++n) {
      store(scores + n * kScoreStride + p * kPageTokens, to_f32(sums[n][p]) * scales);
    }
  }
}

// Sixteen tokens of a piece, and those of them that a query sees.
struct Sighted {
  int begin;
  int end;

  Sighted(int first, Span visible)
      : begin(max_int(visible.begin - first, 0)), end(min_int(visible.end - first, kPageTokens)) {}
  bool all() const { return begin == 0 && end == kPageTokens; }
  F32x16 keep(F32x16 x, float other) const { return all() ? x : keep_lanes(x, begin, end, other); }
};

// Scores take over the query's scale and the cap. Returns the greatest.
inline float scale_scores(float* scores, float query_scale, Span visible,
                          const AttentionRule& rule) {
  const Span own = pages_of(visible);
  F32x16 greatest = splat(kNoScore);
  for (int page = own.begin; page < own.end; ++page) {
    const int first = page * kPageTokens;
    F32x16 s = load(scores + first) * splat(query_scale);
    if (rule.cap != 0.0f) s = rule.capped(s);
    store(scores + first, s);
    greatest = max(greatest, Sighted(first, visible).keep(s, kNoScore));
  }
  return reduce_max(greatest);
}

// What the softmax of one query comes to.
struct RowWeights {
  float sum;        // of 2^(score - max)
  CodeScale scale;  // of those powers, each multiplied by its value's scale
};

// Scores become powers of 2 of their distance to the maximum, times the scales of the values.
template <class T>
inline RowWeights weigh_scores(const PieceWork<T>& work, Span visible, float max_score,
                               float* scores) {
  const Span own = pages_of(visible);
  F32x16 sums = zero_f32();
  I32x16 greatest = zero_i32();
  for (int page = own.begin; page < own.end; ++page) {
    const int first = page * kPageTokens;
    const Sighted sighted(first, visible);
    const F32x16 distance = load(scores + first) - splat(max_score);
    const F32x16 power = sighted.keep(exp2_of_negative(distance), 0.0f);
    // The scales of what is not seen may be NaN.
    const F32x16 scales = load(scales_of(work.values[page], work.head_dim));
    const F32x16 weight = sighted.keep(power * scales, 0.0f);
    sums = sums + power;
    greatest = max(greatest, magnitude_bits(weight));
    store(scores + first, weight);
  }
  return {reduce_sum(sums), scale_by_maximum(greatest, kGreatestWeight)};
}

// Of what a query does not see, in all of `pages`, the codes are 0.
inline void store_weights(const float* weights, const CodeScale& scale, Span pages, Span visible,
                          int16_t* codes) {
  const Span own = pages_of(visible);
  for (int page = pages.begin; page < pages.end; ++page) {
    const bool seen = page >= own.begin && page < own.end;
    const int first = page * kPageTokens;
    store_i16(codes + first, seen ? scale.codes(load(weights + first)) : zero_i32());
  }
}

// Sets max and sum, and makes weights of the scores. Step by step for all queries, because a
// query's next step waits for the reduction that ends the one before.
template <class T, int N>
inline void softmax(const PieceWork<T>& work, const AttentionRule& rule, Partial& out,
                    float (&scales)[N]) {
  for (int n = 0; n < N; ++n) {
    out.max[n] =
        scale_scores(work.scores + n * kScoreStride, work.query_scales[n], work.visible[n], rule);
  }
  RowWeights rows[N];
  for (int n = 0; n < N; ++n) {
    rows[n] = weigh_scores(work, work.visible[n], out.max[n], work.scores + n * kScoreStride);
  }
  for (int n = 0; n < N; ++n) {
    store_weights(work.scores + n * kScoreStride, rows[n].scale, work.pages, work.visible[n],
                  work.weights + n * kScoreStride);
    out.sum[n] = rows[n].sum;
    scales[n] = rows[n].scale.scale;
  }
}

// sums[n][c] += weights[n] . values of one page, columns 16 c.. from `column`.
template <class T, int N, int C>
OCTAVO_INLINE void add_page(const PieceWork<T>& work, int page, int column, I32x16 (&sums)[N][C]) {
  const int16_t* weights = work.weights + page * kPageTokens;
  for (int token = 0; token < kPageTokens; token += 2) {
    const int line = token * work.head_dim + 2 * column;
    I16x32 lines[C];
#pragma GCC unroll 12
    for (int c = 0; c < C; ++c) {
      const int at = line + c * 2 * kLanes;
      lines[c] = load_pairs(&work.values[page][at].value);
      if constexpr (fetches_beside(N)) fetch_line(work.beside_values[page], at);
    }
    if constexpr (fetches_beside(N)) fetch_scales(work.beside_values[page], work.head_dim, line);
#pragma GCC unroll 12
    for (int n = 0; n < N; ++n) {
#pragma GCC unroll 12
      for (int c = 0; c < C; ++c) {
        sums[n][c] = dot_pairs(sums[n][c], lines[c], weights + n * kScoreStride + token);
      }
    }
  }
}

// out[n][16 C columns] = the sum over the pages of weights[n] . values. Sums of two pages, cut at
// multiples of two, are integers (kGreatestCode and kGreatestWeight are such that they fit), and
// are added up as floats in ascending order; those of pages that a query does not see are zeros.
template <class T, int N, int C>
inline void sum_columns(const PieceWork<T>& work, int column, const float (&scales)[N],
                        float* out) {
  F32x16 totals[N][C];
#pragma GCC unroll 12
  for (int n = 0; n < N; ++n) {
#pragma GCC unroll 12
    for (int c = 0; c < C; ++c) totals[n][c] = zero_f32();
  }
  for (int page = work.pages.begin; page < work.pages.end;) {
    I32x16 sums[N][C];
#pragma GCC unroll 12
    for (int n = 0; n < N; ++n) {
#pragma GCC unroll 12
      for (int c = 0; c < C; ++c) sums[n][c] = zero_i32();
    }
    const int end = min_int(page / 2 * 2 + 2, work.pages.end);
    for (; page < end; ++page) add_page<T, N, C>(work, page, column, sums);
#pragma GCC unroll 12
    for (int n = 0; n < N; ++n) {
#pragma GCC unroll 12
      for (int c = 0; c < C; ++c) totals[n][c] = totals[n][c] + to_f32(sums[n][c]);
    }
  }
#pragma GCC unroll 12
  for (int n = 0; n < N; ++n) {
#pragma GCC unroll 12
    for (int c = 0; c < C; ++c) {
      store(out + n * work.head_dim + column + c * kLanes, totals[n][c] * splat(scales[n]));
    }
  }
}

template <class T, int N>
  requires(kHasScales<T>)
void attend_piece(const PieceWork<T>& work, const AttentionRule& rule, Partial& out) {
  constexpr int C = lines_at_once(N);
  score_piece<T, N>(work);
  float scales[N];
  softmax(work, rule, out, scales);
  int column = 0;
  for (; column + C * kLanes <= work.head_dim; column += C * kLanes) {
    sum_columns<T, N, C>(work, column, scales, out.values());
  }
  for (; C > 1 && column < work.head_dim; column += kLanes) {
    sum_columns<T, N, 1>(work, column, scales, out.values());
  }
}

}  // namespace octavo::OCTAVO_LEVEL
