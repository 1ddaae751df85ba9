// Attention of a few queries over one piece of the context, and how pieces are merged. Owns the
// order of every sum: each query's arithmetic is the same whatever other queries stand beside it.
// Knows nothing of sequences, rows or workers.
#pragma once

#include <cstdint>

#include "kernels/exp2.h"
#include "kernels/kv_element.h"
#include "octavo/limits.h"
#include "octavo/types.h"
#include "simd/vec.h"

namespace octavo::OCTAVO_LEVEL {

// Queries whose sums are held in registers while a line of keys or values passes by.
#if defined(OCTAVO_AVX512)
inline constexpr int kQueryBlock = 12;
#elif defined(OCTAVO_AVX2)
inline constexpr int kQueryBlock = 6;
#else
inline constexpr int kQueryBlock = 2;
#endif

inline constexpr int kPiecePages = kAttentionPiece / kPageTokens;
// One line more than a power of two, so that the rows do not all fall into one cache set.
inline constexpr int kQueryStride = kMaxHeadDim + kLanes;
inline constexpr int kScoreStride = kAttentionPiece + kLanes;
// The maximum of no scores at all; finite, so that differences of maxima never are NaN.
inline constexpr float kNoScore = -3.4028234e38f;

// Tokens, or pages, [begin, end) counted from the start of a piece.
struct Span {
  int begin;
  int end;

  bool empty() const { return begin >= end; }
};
OCTAVO_INLINE int min_int(int a, int b) { return a < b ? a : b; }
OCTAVO_INLINE int max_int(int a, int b) { return a > b ? a : b; }
OCTAVO_INLINE Span intersect(Span a, Span b) {
  return {max_int(a.begin, b.begin), min_int(a.end, b.end)};
}
// The pages that hold any of the tokens.
OCTAVO_INLINE Span pages_of(Span tokens) {
  return {tokens.begin / kPageTokens, (tokens.end + kPageTokens - 1) / kPageTokens};
}

struct AttentionRule {
  static constexpr float kLog2E = 1.44269504088896341f;

  int64_t window;  // a query at p sees keys p - window + 1 .. p; 0: all keys up to p
  float scale;
  float cap;  // 0: none

  // Scores are kept in units of log 2, so that a weight is 2^score. A query is multiplied by
  // query_factor when it is loaded; its products with the keys are the scores, or, with a cap, what
  // `capped` makes scores of.
  float query_factor() const { return cap == 0.0f ? scale * kLog2E : scale / cap; }
  F32x16 capped(F32x16 s) const { return splat(cap * kLog2E) * tanh(s); }

  int64_t first_visible(int64_t position) const {
    return window > 0 && position >= window ? position - window + 1 : 0;
  }
  Span visible(int64_t position, int64_t piece) const {
    const int64_t start = piece * kAttentionPiece;
    const int64_t begin = first_visible(position) - start, end = position + 1 - start;
    return {static_cast<int>(begin > 0 ? begin : 0),
            static_cast<int>(end < kAttentionPiece ? end : kAttentionPiece)};
  }
};

// Some queries over one piece of context, with their workspace. Pages outside `pages` are not set.
template <class T>
struct PieceWork {
  int head_dim;
  const float* queries;          // [head_dim][kQueryBlock]
  float* scores;                 // [kQueryBlock][kScoreStride]
  Span visible[kQueryBlock];     // tokens that each query sees; may be empty
  Span pages;                    // pages that any query sees; not empty
  const T* keys[kPiecePages];    // [head_dim][kPageTokens] each, and scales if T has any
  const T* values[kPiecePages];  // [kPageTokens][head_dim] each, and scales if T has any
};

// What attention over some keys comes to: the greatest score, the sum of 2^(score - max), and the
// values weighted by those powers, unnormalised. sum = 0 when a query sees none of the keys.
struct Partial {
  float max[kLanes];
  float sum[kLanes];

  float* values() { return reinterpret_cast<float*>(this + 1); }  // [kQueryBlock][head_dim]
  const float* values() const { return reinterpret_cast<const float*>(this + 1); }
};
constexpr int64_t partial_bytes(int64_t head_dim) {
  return static_cast<int64_t>(sizeof(Partial)) + kQueryBlock * head_dim * 4;
}

inline void clear(Partial& p, int64_t head_dim) {
  store(p.max, splat(kNoScore));
  store(p.sum, zero_f32());
  for (int64_t i = 0; i < kQueryBlock * head_dim; i += kLanes) store(p.values() + i, zero_f32());
}

// Lines of keys or values that N queries take at once: enough sums in flight to hide the latency of
// a multiply-add, few enough to stay in registers.
constexpr int lines_at_once(int queries) {
  return 4 * queries <= kQueryBlock ? 4 : 2 * queries <= kQueryBlock ? 2 : 1;
}

// Pages lie anywhere and are short, so the processor does not foresee them: while the keys of some
// pages are scored, the keys scored after them and the values needed later are fetched.
template <class T>
struct Upcoming {
  const T* const* keys;
  const T* const* values;

  template <int P>
  OCTAVO_INLINE void fetch(int column) const {
    constexpr int kColumns = 64 / (kPageTokens * static_cast<int>(sizeof(T)));  // in a cache line
    if (column % kColumns != 0) return;
#pragma GCC unroll 12
    for (int p = 0; p < P; ++p) {
      __builtin_prefetch(keys[p] + column * kPageTokens, 0, 3);
      __builtin_prefetch(values[p] + column * kPageTokens, 0, 2);
    }
  }
};

// A key's scale is a factor of all its products, so it is applied to their sum.
template <int N, int P>
OCTAVO_INLINE void scale_scores(const Code* const* keys, int head_dim, F32x16 (&sums)[N][P]) {
#pragma GCC unroll 12
  for (int p = 0; p < P; ++p) {
    const F32x16 scales = load(scales_of(keys[p], head_dim));
#pragma GCC unroll 12
    for (int n = 0; n < N; ++n) sums[n][p] = sums[n][p] * scales;
  }
}

// scores[n][0 .. 16 P) = q_n . k over P pages; each sum runs over the head's columns in order.
template <class T, int N, int P>
inline void score_pages(const T* const* keys, const Upcoming<T>& upcoming, const float* queries,
                        int head_dim, float* scores) {
  F32x16 sums[N][P];
#pragma GCC unroll 12
  for (int n = 0; n < N; ++n) {
#pragma GCC unroll 12
    for (int p = 0; p < P; ++p) sums[n][p] = zero_f32();
  }
  for (int d = 0; d < head_dim; ++d) {
    if constexpr (P > 1) upcoming.template fetch<P>(d);
    F32x16 lines[P];
#pragma GCC unroll 12
    for (int p = 0; p < P; ++p) lines[p] = load_line(keys[p] + d * kPageTokens);
#pragma GCC unroll 12
    for (int n = 0; n < N; ++n) {
      const F32x16 q = splat(queries[n * kQueryStride + d]);
#pragma GCC unroll 12
      for (int p = 0; p < P; ++p) sums[n][p] = fma(q, lines[p], sums[n][p]);
    }
  }
  if constexpr (kHasScales<T>) scale_scores<N, P>(keys, head_dim, sums);
#pragma GCC unroll 12
  for (int n = 0; n < N; ++n) {
#pragma GCC unroll 12
    for (int p = 0; p < P; ++p) store(scores + n * kScoreStride + p * kPageTokens, sums[n][p]);
  }
}

template <class T, int N>
inline void score_piece(const PieceWork<T>& work) {
  constexpr int P = lines_at_once(N);
  int page = work.pages.begin;
  for (; page + P <= work.pages.end; page += P) {
    const int next = page + 2 * P <= work.pages.end ? page + P : page;
    score_pages<T, N, P>(work.keys + page, {work.keys + next, work.values + page}, work.queries,
                         work.head_dim, work.scores + page * kPageTokens);
  }
  for (; P > 1 && page < work.pages.end; ++page) {
    score_pages<T, N, 1>(work.keys + page, {work.keys + page, work.values + page}, work.queries,
                         work.head_dim, work.scores + page * kPageTokens);
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

// The weights of what one query sees take over the factor of the values that they will multiply.
// What it does not see stays 0, even if that factor is NaN.
inline void scale_weights(const Code* const* values, int head_dim, Span visible, float* weights) {
  const Span own = pages_of(visible);
  for (int page = own.begin; page < own.end; ++page) {
    const int first = page * kPageTokens;
    const F32x16 scaled = load(weights + first) * load(scales_of(values[page], head_dim));
    store(weights + first, keep_lanes(scaled, max_int(visible.begin - first, 0),
                                      min_int(visible.end - first, kPageTokens), 0.0f));
  }
}

// out[n][16 C columns] += sum over the tokens, in order, of weights[n][token] * values[token].
template <class T, int N, int C>
inline void add_columns(const T* const* values, int column, int head_dim, Span tokens,
                        const float* weights, float* out) {
  F32x16 sums[N][C];
#pragma GCC unroll 12
  for (int n = 0; n < N; ++n) {
#pragma GCC unroll 12
    for (int c = 0; c < C; ++c) sums[n][c] = load(out + n * head_dim + column + c * kLanes);
  }
  for (int token = tokens.begin; token < tokens.end;) {
    const int page_end = min_int((token / kPageTokens + 1) * kPageTokens, tokens.end);
    const T* line = values[token / kPageTokens] + token % kPageTokens * head_dim + column;
    for (; token < page_end; ++token, line += head_dim) {
      F32x16 v[C];
#pragma GCC unroll 12
      for (int c = 0; c < C; ++c) v[c] = load_line(line + c * kLanes);
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
    add_columns<T, N, C>(work.values, column, work.head_dim, tokens, weights, out);
  }
  for (; C > 1 && column < work.head_dim; column += kLanes) {
    add_columns<T, N, 1>(work.values, column, work.head_dim, tokens, weights, out);
  }
}

// Whether none of these tokens' values is infinite or NaN. Codes never are.
template <class T>
inline bool all_finite(const PieceWork<T>& work, Span tokens) {
  if constexpr (kHasScales<T>) return true;
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
void attend_piece(const PieceWork<T>& work, const AttentionRule& rule, Partial& out) {
  score_piece<T, N>(work);
  for (int n = 0; n < N; ++n) {
    softmax_row(work.scores + n * kScoreStride, work.pages, work.visible[n], rule, out.max[n],
                out.sum[n]);
    if constexpr (kHasScales<T>) {
      scale_weights(work.values, work.head_dim, work.visible[n], work.scores + n * kScoreStride);
    }
  }
  const Sight sight = sight_of<N>(work.visible);
  if (all_finite(work, {sight.some.begin, sight.all.begin}) &&
      all_finite(work, {sight.all.end, sight.some.end})) {
    add_values<T, N>(work, 0, sight.some, out.values());
  } else {
    for (int n = 0; n < N; ++n) add_values<T, 1>(work, n, work.visible[n], out.values());
  }
}

// attend_piece for a number of queries known only at run time. `out` is cleared first.
template <class T, int N = kQueryBlock>
inline void attend(int num_queries, const PieceWork<T>& work, const AttentionRule& rule,
                   Partial& out) {
  if (num_queries == N) {
    clear(out, work.head_dim);
    attend_piece<T, N>(work, rule, out);
  } else if constexpr (N > 1) {
    attend<T, N - 1>(num_queries, work, rule, out);
  }
}

// total = total and then piece, for each query that sees any of the piece. The first piece is taken
// over exactly: its factor is 2^0 and the factor of the empty total is 0.
inline void merge(Partial& total, const Partial& piece, int num_queries, int64_t head_dim) {
  const F32x16 greatest = max(load(total.max), load(piece.max));
  alignas(64) float top[kLanes], old_factor[kLanes], new_factor[kLanes];
  store(top, greatest);
  store(old_factor, exp2_of_negative(load(total.max) - greatest));
  store(new_factor, exp2_of_negative(load(piece.max) - greatest));
  for (int n = 0; n < num_queries; ++n) {
    if (piece.sum[n] == 0.0f) continue;
    total.max[n] = top[n];
    total.sum[n] = total.sum[n] * old_factor[n] + piece.sum[n] * new_factor[n];
    const float* add = piece.values() + n * head_dim;
    float* sums = total.values() + n * head_dim;
    const F32x16 old = splat(old_factor[n]), fresh = splat(new_factor[n]);
    for (int64_t d = 0; d < head_dim; d += kLanes) {
      store(sums + d, fma(fresh, load(add + d), old * load(sums + d)));
    }
  }
}

}  // namespace octavo::OCTAVO_LEVEL
