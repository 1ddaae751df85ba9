// What attention of a few queries over one piece of the context is given and yields, and how pieces
// are merged. attention_float.h and attention_integer.h do the arithmetic; each query's is the same
// whatever other queries stand beside it. Knows nothing of sequences, rows or workers.
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

// Pages lie anywhere and are short, so the processor does not foresee them: while one page's keys
// or values, a half of it, are computed with, a half that comes later is fetched, line beside line.
// Into the second-level cache, since fetches into the first are fewer at a time: with two workers
// and pages in random order 29 GB/s against 22, where one long stream had 34.
template <int kLocality = 2, class T>
OCTAVO_INLINE void fetch_line(const T* at, int offset) {
  constexpr int kLineElements = 64 / static_cast<int>(sizeof(T));
  if (offset % kLineElements == 0) __builtin_prefetch(at + offset, 0, kLocality);
}
// The scales behind a page's keys or values, at the first of its lines.
template <class T>
OCTAVO_INLINE void fetch_scales(const T* half, int head_dim, int offset) {
  if constexpr (kHasScales<T>) {
    if (offset == 0) __builtin_prefetch(scales_of(half, head_dim), 0, 2);
  }
}
template <class T>
inline void fetch_half(const T* half, int head_dim) {
  for (int offset = 0; offset < head_dim * kPageTokens; offset += kLanes) fetch_line(half, offset);
  fetch_scales(half, head_dim, 0);
}
// Whether so many queries spend so little on a line that fetching others beside it pays: those of a
// decode do; blocks of a prompt find most lines in the cache.
constexpr bool fetches_beside(int queries) { return 3 * queries <= 2 * kQueryBlock; }

// Some queries over one piece of context, with their workspace. Pages outside `pages` are not set.
template <class T>
struct PieceWork {
  // While the lines at `offset` of P pages' keys are scored. The next pages' keys are in the second
  // level by then and move on into the first (SmolLM2, 8 x 270 tokens: 43 us a layer for 57).
  template <int P>
  OCTAVO_INLINE void fetch_beside_keys(int page, int offset) const {
    const int next = page + 2 * P <= pages.end ? page + P : page;
#pragma GCC unroll 12
    for (int p = 0; p < P; ++p) {
      fetch_line(beside_keys[page + p], offset);
      fetch_scales(beside_keys[page + p], head_dim, offset);
      if constexpr (P > 1) fetch_line<3>(keys[next + p], offset);
    }
  }

  int head_dim;
  const QueryElement<T>* queries;  // [kQueryBlock][kQueryStride]
  const float* query_scales;       // [kQueryBlock], if T has scales: what a query's codes stand for
  float* scores;                   // [kQueryBlock][kScoreStride]
  int16_t* weights;                // the same, if T has scales
  Span visible[kQueryBlock];       // tokens that each query sees; may be empty
  Span pages;                      // pages that any query sees; not empty
  const T* keys[kPiecePages];      // laid out as octavo/types.h says
  const T* values[kPiecePages];
  // What to fetch beside those; themselves, if nothing.
  const T* beside_keys[kPiecePages];
  const T* beside_values[kPiecePages];
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

// score_pages<T, N, P>, of P pages, comes with the arithmetic.
template <class T, int N>
inline void score_piece(const PieceWork<T>& work) {
  constexpr int P = lines_at_once(N);
  int page = work.pages.begin;
  for (; page + P <= work.pages.end; page += P) {
    score_pages<T, N, P>(work, page);
  }
  for (; P > 1 && page < work.pages.end; ++page) {
    score_pages<T, N, 1>(work, page);
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
