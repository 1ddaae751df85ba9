// Kernels that write keys and values into pages: `write_pages`, and `rope_write_pages`, which also
// normalises and rotates the heads of a fused q, k, v row on the way.
#include <cstring>

#include "kernels/int8_scale.h"
#include "kernels/kv_element.h"
#include "kernels/norm_row.h"
#include "kernels/rotate_head.h"
#include "kernels/rows.h"
#include "octavo/program.h"

namespace octavo::OCTAVO_LEVEL {
namespace {

// One head's vector of one token on its way into a page.
template <class T>
struct PageVector {
  PageVector(const float* vector, int64_t) : x(vector) {}

  void store_columns(int64_t d, T* line) const { store_line(line, load(x + d)); }
  void store_scale(T*, int64_t) const {}

  const float* x;
};
template <>
struct PageVector<Code> {
  PageVector(const float* vector, int64_t dim) : x(vector), head_dim(dim) {
    I32x16 greatest = zero_i32();
    for (int64_t d = 0; d < dim; d += kLanes) greatest = max(greatest, magnitude_bits(load(x + d)));
    scale = int8_scale(greatest);
  }

  void store_columns(int64_t d, Code* line) const {
    store_i8(&line->value, scale.codes(load(x + d)));
  }
  void store_scale(Code* half, int64_t offset) const {
    scales_of(half, head_dim)[offset] = scale.scale;
  }

  const float* x;
  int64_t head_dim;
  Int8Scale scale;
};

template <class T>
void write_head(const KvLayer& kv, int64_t slot, int64_t head, const float* key,
                const float* value) {
  const PageHead<T> page = page_head<T>(kv, slot / kPageTokens, head);
  const int64_t offset = slot % kPageTokens;
  const PageVector<T> k(key, kv.head_dim), v(value, kv.head_dim);
  for (int64_t d = 0; d < kv.head_dim; d += kLanes) {
    T line[kLanes];
    k.store_columns(d, line);
    for (int64_t i = 0; i < kLanes; ++i) page.keys[(d + i) * kPageTokens + offset] = line[i];
    v.store_columns(d, page.values + offset * kv.head_dim + d);
  }
  k.store_scale(page.keys, offset);
  v.store_scale(page.values, offset);
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
  const Operand& k = call.instruction.inputs[0];
  const Operand& v = call.instruction.inputs[1];
  const KvLayer& kv = call.kv(call.instruction.inputs[2]);
  with_element(kv.dtype, [&]<class T>(T*) {
    for_row_chunks(call, [&](int64_t first, int64_t last) {
      for (int64_t r = first; r < last; ++r) {
        for (int64_t h = 0; h < kv.num_kv_heads; ++h) {
          write_head<T>(kv, call.step.slots[r], h, call.row<float>(k, r) + h * kv.head_dim,
                        call.row<float>(v, r) + h * kv.head_dim);
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
          write_head<T>(kv, call.step.slots[r], h, key, k + (kv_heads + h) * dim);
        }
      }
    });
  });
}

}  // namespace octavo::OCTAVO_LEVEL
