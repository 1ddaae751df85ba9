// The arithmetic of attention over pages of floats, in float32. Owns the order of every sum.
#pragma once

#include <cstdint>

#include "kernels/attention_piece.h"
#include "kernels/exp2.h"
#include "simd/vec.h"

namespace octavo::OCTAVO_LEVEL {

// scores[n][0 .. 16 P) = q_n . k over P pages; each sum runs over the head's columns in order.
template <class T, int N, int P>
  requires(!kHasScales<T>)
inline void score_pages(const PieceWork<T>& work, int page) {
  const T* const* keys = work.keys + page;
  float* scores = work.scores + page * kPageTokens;
  F32x16 sums[N][P];
#pragma GCC unroll 12
  for (int n = 0; n < N; ++n) {
#pragma GCC unroll 12
    for (int p = 0; p < P; ++p) sums[n][p] = zero_f32();
  }
  for (int d = 0; d < work.head_dim; ++d) {
    if constexpr (fetches_beside(N)) work.template fetch_beside_keys<P>(page, d * kPageTokens);
    F32x16 lines[P];
#pragma GCC unroll 12
    for (int p = 0; p < P; ++p) lines[p] = load_line(keys[p] + d * kPageTokens);
#pragma GCC unroll 12
    for (int n = 0; n < N; ++n) {
      const F32x16 q = splat(work.queries[n * kQueryStride + d]);
#pragma GCC unroll 12
      for (int p = 0; p < P; ++p) sums[n][p] = fma(q, lines[p], sums[n][p]);
    }
  }
#pragma GCC unroll 12
  for (int n = 0; n < N; ++n) {
#pragma GCC unroll 12
    for (int p = 0; p < P; ++p) store(scores + n * kScoreStride + p * kPageTokens, sums[n][p]);
  }
}

// Scores of one query become powers of 2 of their distance to the maximum; what it does not see
// becomes 0, whatever was in those slots, in all of `pages`. Sets max and sum.
inline void softmax_row(float* scores, Span pages, Span visible, const AttentionRule& rule,
                        float& max_score, float& sum) {
  const Span own = pages_of(visible);
  F32x16 greatest = splat(kNoScore);
  for (int page = own.begin; page < own.end; ++page) {
    const int first = page * kPageTokens;
    F32x16 s = load(scores + first);
    if (rule.cap != 0.0f) s = rule.capped(s);
    if (first < visible.begin || first + kPageTokens > visible.end) {
      s = keep_lanes(s, max_int(visible.begin - first, 0),
                     min_int(visible.end - first, kPageTokens), -__builtin_inff());
    }
    store(scores + first, s);
    greatest = max(greatest, s);
  }
  max_score = reduce_max(greatest);
  F32x16 sums = zero_f32();
  for (int page = own.begin; page < own.end; ++page) {
    const F32x16 e = exp2_of_negative(load(scores + page * kPageTokens) - splat(max_score));
    store(scores + page * kPageTokens, e);
    sums = sums + e;
  }
  sum = reduce_sum(sums);
  for (int page = pages.begin; page < pages.end; ++page) {
    if (page < own.begin || page >= own.end) store(scores + page * kPageTokens, zero_f32());
  }
}

// out[n][16 C columns] += sum over the tokens, in order, of weights[n][token] * values[token].
template <class T, int N, int C>
inline void add_columns(const PieceWork<T>& work, int column, Span tokens, const float* weights,
                        float* out) {
  const int head_dim = work.head_dim;
  F32x16 sums[N][C];
#pragma GCC unroll 12
  for (int n = 0; n < N; ++n) {
#pragma GCC unroll 12
    for (int c = 0; c < C; ++c) sums[n][c] = load(out + n * head_dim + column + c * kLanes);
  }
  for (int token = tokens.begin; token < tokens.end;) {
    const int page_end = min_int((token / kPageTokens + 1) * kPageTokens, tokens.end);
    const T* const page = work.values[token / kPageTokens];
    const T* const beside = work.beside_values[token / kPageTokens];
    for (; token < page_end; ++token) {
      const int line = token % kPageTokens * head_dim + column;
      F32x16 v[C];
#pragma GCC unroll 12
      for (int c = 0; c < C; ++c) {
        v[c] = load_line(page + line + c * kLanes);
        if constexpr (fetches_beside(N)) fetch_line(beside, line + c * kLanes);
      }
#pragma GCC unroll 12
      for (int n = 0; n < N; ++n) {
        const F32x16 w = splat(weights[n * kScoreStride + token]);
#pragma GCC unroll 12
        for (int c = 0; c < C; ++c) sums[n][c] = fma(w, v[c], sums[n][c]);
      }
    }
  }
#pragma GCC unroll 12
  for (int n = 0; n < N; ++n) {
#pragma GCC unroll 12
    for (int c = 0; c < C; ++c) store(out + n * head_dim + column + c * kLanes, sums[n][c]);
  }
}

template <class T, int N>
inline void add_values(const PieceWork<T>& work, int query, Span tokens, float* out) {
  constexpr int C = lines_at_once(N);
  if (tokens.empty()) return;
  const float* weights = work.scores + query * kScoreStride;
  out += query * work.head_dim;
  int column = 0;
  for (; column + C * kLanes <= work.head_dim; column += C * kLanes) {
    add_columns<T, N, C>(work, column, tokens, weights, out);
  }
  for (; C > 1 && column < work.head_dim; column += kLanes) {
    add_columns<T, N, 1>(work, column, tokens, weights, out);
  }
}

// Whether none of these tokens' values is infinite or NaN.
template <class T>
inline bool all_finite(const PieceWork<T>& work, Span tokens) {
  F32x16 zeros = zero_f32();
  for (int token = tokens.begin; token < tokens.end; ++token) {
    const T* line = work.values[token / kPageTokens] + token % kPageTokens * work.head_dim;
    for (int d = 0; d < work.head_dim; d += kLanes) {
      zeros = fma(load_line(line + d), zero_f32(), zeros);
    }
  }
  return reduce_sum(zeros) == 0.0f;
}

// Tokens that some of N queries see, and those that all of them see.
struct Sight {
  Span some;
  Span all;
};
template <int N>
inline Sight sight_of(const Span* visible) {
  Sight sight = {{kAttentionPiece, 0}, {0, kAttentionPiece}};
  for (int n = 0; n < N; ++n) {
    sight.all = intersect(sight.all, visible[n]);
    if (visible[n].empty()) continue;
    sight.some = {min_int(sight.some.begin, visible[n].begin),
                  max_int(sight.some.end, visible[n].end)};
  }
  if (sight.all.empty()) sight.all = {sight.some.end, sight.some.end};
  return sight;
}

// All queries go together over the tokens that any of them sees: a weight of 0 adds nothing, unless
// the value is infinite or NaN. Then each query goes by itself over what it sees. Both give the
// same bits, and slots that nobody sees are not read.
template <class T, int N>
  requires(!kHasScales<T>)
void attend_piece(const PieceWork<T>& work, const AttentionRule& rule, Partial& out) {
  clear(out, work.head_dim);
  score_piece<T, N>(work);
  for (int n = 0; n < N; ++n) {
    softmax_row(work.scores + n * kScoreStride, work.pages, work.visible[n], rule, out.max[n],
                out.sum[n]);
  }
  const Sight sight = sight_of<N>(work.visible);
  if (all_finite(work, {sight.some.begin, sight.all.begin}) &&
      all_finite(work, {sight.all.end, sight.some.end})) {
    add_values<T, N>(work, 0, sight.some, out.values());
  } else {
    for (int n = 0; n < N; ++n) add_values<T, 1>(work, n, work.visible[n], out.values());
  }
}

}  // namespace octavo::OCTAVO_LEVEL
