// Kernels that write keys and values into pages: `write_pages`, and `rope_write_pages`, which also
// normalises and rotates the heads of a fused q, k, v row on the way.
#include <cstring>

#include "kernels/code_scale.h"
#include "kernels/hadamard.h"
#include "kernels/kv_element.h"
#include "kernels/norm_row.h"
#include "kernels/rotate_head.h"
#include "kernels/rows.h"
#include "octavo/limits.h"
#include "octavo/program.h"

namespace octavo::OCTAVO_LEVEL {
namespace {

template <class T>
void write_head(const PageHead<T>& page, int64_t offset, int64_t head_dim, const float* key,
                const float* value) {
  for (int64_t d = 0; d < head_dim; d += kLanes) {
    T line[kLanes];
    store_line(line, load(key + d));
    for (int64_t i = 0; i < kLanes; ++i) page.keys[(d + i) * kPageTokens + offset] = line[i];
    store_line(page.values + offset * head_dim + d, load(value + d));
  }
}

// Codes of one vector of one token; code i goes to out[i / run * stride + i % run].
template <class Integer>
void write_codes(const float* x, int64_t head_dim, const CodeScale& scale, Code<Integer>* out,
                 int run, int64_t stride) {
  for (int64_t d = 0; d < head_dim; d += kLanes) {
    Integer line[kLanes];
    store_codes(line, scale.codes(load(x + d)));
    for (int i = 0; i < kLanes; i += run, out += stride) {
      for (int j = 0; j < run; ++j) out[j].value = line[i + j];
    }
  }
}

CodeScale scale_of(const float* x, int64_t head_dim, float limit) {
  I32x16 greatest = zero_i32();
  for (int64_t d = 0; d < head_dim; d += kLanes) {
    greatest = max(greatest, magnitude_bits(load(x + d)));
  }
  return scale_by_maximum(greatest, limit);
}

CodeScale key_scale(const float* key, int64_t head_dim, const Code16*) {
  return scale_by_length(sum_of_squares(key, head_dim), kLongestVector);
}
CodeScale key_scale(const float* key, int64_t head_dim, const Code8*) {
  return scale_of(key, head_dim, kGreatestCode<Code8>);
}

// Two workers may write the two tokens of a pair: elements are stored one by one.
template <class Integer>
void write_head(const PageHead<Code<Integer>>& page, int64_t offset, int64_t head_dim,
                const float* key, const float* value) {
  float spread[kMaxHeadDim];
  if constexpr (sizeof(Integer) == 1) {
    std::memcpy(spread, key, static_cast<size_t>(head_dim) * sizeof(float));
    hadamard(spread, head_dim);
    key = spread;
  }
  const CodeScale k = key_scale(key, head_dim, page.keys);
  const CodeScale v = scale_of(value, head_dim, kGreatestCode<Code<Integer>>);
  write_codes(key, head_dim, k, page.keys + 2 * offset, 2, 2 * kPageTokens);
  write_codes(value, head_dim, v, page.values + offset / 2 * 2 * head_dim + offset % 2, 1, 2);
  scales_of(page.keys, head_dim)[offset] = k.scale;
  scales_of(page.values, head_dim)[offset] = v.scale;
}

template <class T>
void write_token(const KvLayer& kv, int64_t slot, int64_t head, const float* key,
                 const float* value) {
  write_head(page_head<T>(kv, slot / kPageTokens, head), slot % kPageTokens, kv.head_dim, key,
             value);
}

int64_t slot_of(const KernelCall& call, const KvLayer& kv, int64_t row) {
  return call.step.slots[row * call.step.num_page_groups + kv.group];
}

// What a key loses before it is kept, as `KeyOffset` of ops/interface.py says.
struct KeyOffset {
  const float* vector;  // [kv_heads * head_dim], or null
  int64_t head_dim;
  int64_t half;     // columns of each half that rope rotates
  int64_t turning;  // of these, how many keep what they have

  void subtract(int64_t head, float* key) const {
    const float* own = vector + head * head_dim;
    for (int64_t d = turning; d < half; ++d) key[d] -= own[d];
    for (int64_t d = half + turning; d < head_dim; ++d) key[d] -= own[d];
  }
};

KeyOffset key_offset(const KernelCall& call, const Operand& vector, int64_t head_dim,
                     int64_t rotary, int64_t turning) {
  const bool is_none = vector.kind == OperandKind::kNone;
  return {is_none ? nullptr : call.vector(vector), head_dim, rotary / 2, turning};
}

// What `rope_write_pages` does to each head of q and k.
struct HeadTransform {
  const float* norm;  // [head_dim], or null
  float eps;
  int64_t head_dim;
  int64_t half;  // columns of `angles` that are cosines

  void operator()(const float* x, const float* angles, float* y) const {
    if (norm != nullptr) {
      rms_norm_row(x, norm, head_dim, eps, y);
    } else if (x != y) {
      std::memcpy(y, x, static_cast<size_t>(head_dim) * sizeof(float));
    }
    rotate_head(y, angles, half);
  }
};

}  // namespace

void write_pages(const KernelCall& call) {
  const Instruction& in = call.instruction;
  const Operand& k = in.inputs[0];
  const Operand& v = in.inputs[1];
  const KvLayer& kv = call.kv(in.inputs[2]);
  const KeyOffset offset = key_offset(call, in.inputs[3], kv.head_dim, in.ints[0], in.ints[1]);
  float* less = reinterpret_cast<float*>(call.scratch);
  with_element(kv.dtype, [&]<class T>(T*) {
    for_row_chunks(call, [&](int64_t first, int64_t last) {
      for (int64_t r = first; r < last; ++r) {
        for (int64_t h = 0; h < kv.num_kv_heads; ++h) {
          const float* key = call.row<float>(k, r) + h * kv.head_dim;
          if (offset.vector != nullptr) {
            std::memcpy(less, key, static_cast<size_t>(kv.head_dim) * sizeof(float));
            offset.subtract(h, less);
            key = less;
          }
          write_token<T>(kv, slot_of(call, kv, r), h, key, call.row<float>(v, r) + h * kv.head_dim);
        }
      }
    });
  });
}

void rope_write_pages(const KernelCall& call) {
  const Instruction& in = call.instruction;
  const Operand& angles = in.inputs[1];
  const KvLayer& kv = call.kv(in.inputs[2]);
  const int64_t q_heads = in.ints[0], kv_heads = in.ints[1], dim = in.ints[2];
  const auto transform = [&](const Operand& norm) {
    const float* weight = norm.kind == OperandKind::kNone ? nullptr : call.vector(norm);
    return HeadTransform{weight, in.floats[0], dim, angles.width / 2};
  };
  const HeadTransform transform_q = transform(in.inputs[3]), transform_k = transform(in.inputs[4]);
  const KeyOffset offset = key_offset(call, in.inputs[5], dim, angles.width, in.ints[3]);
  float* key = reinterpret_cast<float*>(call.scratch);
  with_element(kv.dtype, [&]<class T>(T*) {
    for_row_chunks(call, [&](int64_t first, int64_t last) {
      for (int64_t r = first; r < last; ++r) {
        float* q = call.row<float>(in.inputs[0], r);
        const float* k = q + q_heads * dim;
        const float* turn = call.row<float>(angles, r);
        for (int64_t h = 0; h < q_heads; ++h) transform_q(q + h * dim, turn, q + h * dim);
        for (int64_t h = 0; h < kv_heads; ++h) {
          transform_k(k + h * dim, turn, key);
          if (offset.vector != nullptr) offset.subtract(h, key);
          write_token<T>(kv, slot_of(call, kv, r), h, key, k + (kv_heads + h) * dim);
        }
      }
    });
  });
}

}  // namespace octavo::OCTAVO_LEVEL
