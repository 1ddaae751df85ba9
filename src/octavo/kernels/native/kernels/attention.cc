// Kernels `attention` and `attention_quantize`: causal, grouped-query attention through page
// tables, of any mix of prompt chunks and single new tokens (arXiv:2309.06180), with the softmax
// taken piece by piece (arXiv:1805.02867). attention_float.h and attention_integer.h own the
// arithmetic, attention_plan.h the sharing of work, attention_jobs.h what a worker takes of it.
#include <cstring>

#include "kernels/attention_float.h"
#include "kernels/attention_integer.h"
#include "kernels/attention_jobs.h"
#include "kernels/hadamard.h"
#include "kernels/norm_row.h"
#include "kernels/quantize_group.h"
#include "kernels/row_block.h"
#include "octavo/program.h"

namespace octavo::OCTAVO_LEVEL {
namespace {

// attend_piece for a number of queries known only at run time.
template <class T, int N = kQueryBlock>
inline void attend(int num_queries, const PieceWork<T>& work, const AttentionRule& rule,
                   Partial& out) {
  if (num_queries == N) {
    attend_piece<T, N>(work, rule, out);
  } else if constexpr (N > 1) {
    attend<T, N - 1>(num_queries, work, rule, out);
  }
}

// A worker's own memory, and the queries it holds at the moment.
template <class T>
class Workspace {
 public:
  Workspace(const KernelCall& call, int64_t head_dim) : next_(call.scratch) {
    queries = take<QueryElement<T>>(kQueryBlock * kQueryStride);
    scores = take<float>(kQueryBlock * kScoreStride);
    weights = take<int16_t>(kQueryBlock * kScoreStride);
    total = reinterpret_cast<Partial*>(take<std::byte>(partial_bytes(head_dim)));
    piece = reinterpret_cast<Partial*>(take<std::byte>(partial_bytes(head_dim)));
  }

  QueryElement<T>* queries;  // as PieceWork wants them, and the three below
  float query_scales[kQueryBlock];
  float* scores;
  int16_t* weights;
  Partial* total;
  Partial* piece;
  int32_t positions[kQueryBlock];

 private:
  template <class E>
  E* take(int64_t count) {
    std::byte* const taken = next_;
    next_ += (count * static_cast<int64_t>(sizeof(E)) + 63) / 64 * 64;
    return reinterpret_cast<E*>(taken);
  }
  std::byte* next_;
};

template <class T>
class Attention {
 public:
  explicit Attention(const KernelCall& call)
      : call_(call),
        query_(call.instruction.inputs[0]),
        output_(call.instruction.outputs[0]),
        kv_(call.kv(call.instruction.inputs[1])),
        shape_{call.instruction.ints[0] / call.instruction.ints[1],
               call.instruction.ints[1],
               call.instruction.ints[2],
               {call.instruction.ints[3], call.instruction.floats[0], call.instruction.floats[1]},
               call.shared_scratch_bytes,
               call.num_workers},
        own_(call, shape_.head_dim) {}

  void run() {
    JobQueue jobs(call_, shape_, kv_);
    for (; jobs.fill(); jobs.pop()) {
      run_job(jobs);
      if (jobs[0].ends) finish_item(call_);
    }
    int64_t merge = jobs.end_item() - jobs.num_items();
    if (merge >= jobs.num_merges()) return;
    wait_for_items(call_, jobs.num_items());
    WorkCursor merges(call_.step, shape_);
    for (; merges.seek_merge(merge); merge = take_item(call_) - jobs.num_items()) {
      merge_unit(merges.work(), merge - merges.work().first_merge);
    }
  }

 private:
  void run_job(JobQueue& jobs) {
    const Job& job = jobs[0];
    if (job.work.sequence != loaded_sequence_ || job.unit_index != loaded_unit_) {
      load_queries(job.work, job.unit);
      loaded_sequence_ = job.work.sequence;
      loaded_unit_ = job.unit_index;
    }
    if (job.work.split) {
      return run_piece(jobs, stored(job.work, job.unit_index, job.split_piece));
    }
    if (job.begins) clear(*own_.total, shape_.head_dim);
    run_piece(jobs, *own_.piece);
    merge(*own_.total, *own_.piece, job.unit.num_queries, shape_.head_dim);
    if (job.ends) write_output(job.work, job.unit);
  }

  void merge_unit(const SequenceWork& work, int64_t index) {
    const Unit unit = work.unit(index);
    clear(*own_.total, shape_.head_dim);
    for (int64_t piece = 0; piece < work.num_pieces; ++piece) {
      merge(*own_.total, stored(work, index, piece), unit.num_queries, shape_.head_dim);
    }
    write_output(work, unit);
  }

  Partial& stored(const SequenceWork& work, int64_t unit, int64_t piece) const {
    const int64_t index = unit * work.num_pieces + piece;
    return *reinterpret_cast<Partial*>(call_.shared_scratch + work.partials +
                                       index * partial_bytes(shape_.head_dim));
  }

  // Row and first column, in q and in the output, of query n of a unit.
  int64_t row_of(const SequenceWork& work, const Unit& unit, int n) const {
    return work.first_row + (unit.first_query + n) / shape_.group;
  }
  int64_t column_of(const Unit& unit, int n) const {
    const int64_t head = unit.kv_head * shape_.group + (unit.first_query + n) % shape_.group;
    return head * shape_.head_dim;
  }

  void load_queries(const SequenceWork& work, const Unit& unit) {
    for (int n = 0; n < unit.num_queries; ++n) {
      const int64_t row = row_of(work, unit, n);
      own_.positions[n] = call_.step.positions[row];
      load_query(call_.row<float>(query_, row) + column_of(unit, n), n);
    }
  }

  void load_query(const float* q, int n) {
    QueryElement<T>* loaded = own_.queries + n * kQueryStride;
    if constexpr (!kHasScales<T>) {
      scale_query(q, shape_.rule.query_factor(), loaded);
    } else {
      // Int8 keys are transformed; the factor makes good for that of both sides, exactly.
      constexpr bool kTransformed = sizeof(T) == 1;
      const int64_t size = kTransformed ? hadamard_size(shape_.head_dim) : 1;
      float scaled[kMaxHeadDim];
      scale_query(q, shape_.rule.query_factor() / static_cast<float>(size), scaled);
      if constexpr (kTransformed) hadamard(scaled, shape_.head_dim);
      const CodeScale scale =
          scale_by_length(sum_of_squares(scaled, shape_.head_dim), kLongestVector);
      own_.query_scales[n] = scale.scale;
      for (int64_t d = 0; d < shape_.head_dim; d += kLanes) {
        store_i16(loaded + d, scale.codes(load(scaled + d)));
      }
    }
  }

  void scale_query(const float* q, float factor, float* scaled) const {
    for (int64_t d = 0; d < shape_.head_dim; d += kLanes) {
      store(scaled + d, load(q + d) * splat(factor));
    }
  }

  void run_piece(JobQueue& jobs, Partial& out) {
    const Job& job = jobs[0];
    if (job.pages.empty()) return clear(out, shape_.head_dim);
    PieceWork<T> p;
    p.head_dim = static_cast<int>(shape_.head_dim);
    p.queries = own_.queries;
    p.query_scales = own_.query_scales;
    p.scores = own_.scores;
    p.weights = own_.weights;
    p.pages = job.pages;
    for (int n = 0; n < job.unit.num_queries; ++n) {
      p.visible[n] = shape_.rule.visible(own_.positions[n], job.piece);
    }
    const int64_t half = page_half_bytes(kv_.dtype, kv_.head_dim);
    for (int page = p.pages.begin; page < p.pages.end; ++page) {
      p.keys[page] = p.beside_keys[page] = reinterpret_cast<const T*>(job.keys[page]);
      p.values[page] = p.beside_values[page] = reinterpret_cast<const T*>(job.keys[page] + half);
    }
    if (fetches_beside(job.unit.num_queries)) plan_fetches(jobs, p);
    if (jobs.size() > 1 && jobs[1].begins) fetch_queries(jobs[1]);
    attend(job.unit.num_queries, p, shape_.rule, out);
  }

  // Rows of queries are far apart, so the processor does not foresee them: unfetched, they take 4 %
  // of the time of SmolLM2's prompts.
  void fetch_queries(const Job& job) const {
    for (int n = 0; n < job.unit.num_queries; ++n) {
      const float* q =
          call_.row<float>(query_, row_of(job.work, job.unit, n)) + column_of(job.unit, n);
      for (int64_t d = 0; d < shape_.head_dim; d += kLanes) __builtin_prefetch(q + d, 0, 2);
    }
  }

  // One half beyond those fetched already beside each half of this job. Where the queue could not
  // be filled, or is new, those that should be fetched by now are fetched first.
  static void plan_fetches(JobQueue& jobs, PieceWork<T>& p) {
    const auto next = [&] { return reinterpret_cast<const T*>(jobs.next_to_fetch()); };
    while (jobs.num_fetched() < kHalvesAhead && jobs.more_to_fetch()) {
      fetch_half(next(), p.head_dim);
    }
    for (int page = p.pages.begin; page < p.pages.end && jobs.more_to_fetch(); ++page) {
      p.beside_keys[page] = next();
    }
    for (int page = p.pages.begin; page < p.pages.end && jobs.more_to_fetch(); ++page) {
      p.beside_values[page] = next();
    }
  }

  void write_output(const SequenceWork& work, const Unit& unit) const {
    alignas(64) float y[kMaxHeadDim];
    for (int n = 0; n < unit.num_queries; ++n) {
      const float* values = own_.total->values() + n * shape_.head_dim;
      const F32x16 factor = splat(1.0f / own_.total->sum[n]);
      for (int64_t d = 0; d < shape_.head_dim; d += kLanes) store(y + d, load(values + d) * factor);
      write_head(row_of(work, unit, n), column_of(unit, n), y);
    }
  }

  void write_head(int64_t row, int64_t column, const float* y) const {
    if (output_.dtype == DType::kF32) {
      std::memcpy(call_.row<float>(output_, row) + column, y,
                  static_cast<size_t>(shape_.head_dim) * sizeof(float));
      return;
    }
    // Rows of a panel lie between each other; workers write different bytes of one cache line.
    const Panel p = panel_of(static_cast<int32_t>(row), call_.rows(), kRowBlock);
    std::byte* const panel = call_.row<std::byte>(output_, p.first_row);
    for (int64_t d = 0; d < shape_.head_dim; d += kGroup) {
      quantize_group_row(y + d, group_slots(panel, column + d, p.rows),
                         static_cast<int>(row - p.first_row));
    }
  }

  const KernelCall& call_;
  const Operand& query_;
  const Operand& output_;
  const KvLayer& kv_;
  const AttentionShape shape_;
  Workspace<T> own_;
  int32_t loaded_sequence_ = -1;
  int64_t loaded_unit_ = -1;
};

}  // namespace

// The output decides whether it is quantised: `attention`, `attention_quantize`.
void attention(const KernelCall& call) {
  with_element(call.kv(call.instruction.inputs[1]).dtype,
               [&call]<class T>(T*) { Attention<T>(call).run(); });
}

void attention_quantize(const KernelCall& call) { attention(call); }

}  // namespace octavo::OCTAVO_LEVEL
