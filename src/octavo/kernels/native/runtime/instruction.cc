// Signatures of the kernels and the checks that hold instructions to them.
#include "runtime/instruction.h"

#include <stdexcept>
#include <utility>

namespace octavo {

namespace {

[[noreturn]] void refuse(const InstructionFields& fields, const std::string& what) {
  throw std::invalid_argument(fields.kernel + ": " + what);
}

void check_equal(const InstructionFields& fields, const char* what, int64_t given, int64_t wanted) {
  if (given == wanted) return;
  refuse(fields, std::string(what) + " is " + std::to_string(given) + " where " +
                     std::to_string(wanted) + " is needed");
}

void check_between(const InstructionFields& fields, const char* what, int64_t given, int64_t low,
                   int64_t high) {
  if (low <= given && given <= high) return;
  refuse(fields, std::string(what) + " is " + std::to_string(given) + "; " + std::to_string(low) +
                     " to " + std::to_string(high) + " are allowed");
}

// ---- What single kernels ask of widths and constants ----

constexpr int64_t kMaxHeads = 4096;

const PackedMatrix& matrix(const Operand& o) { return *static_cast<const PackedMatrix*>(o.object); }
const KvLayer& pages(const Operand& o) { return *static_cast<const KvLayer*>(o.object); }

bool is_float(const PackedMatrix& m) {
  return m.format == WeightFormat::kF32 || m.format == WeightFormat::kF16 ||
         m.format == WeightFormat::kBF16;
}

void equal_widths(const InstructionFields& f) {
  const int32_t width = f.outputs[0].width;
  for (const Operand& o : f.inputs) check_equal(f, "the width of an input", o.width, width);
}

void gated(const InstructionFields& f) {
  equal_widths(f);
  check_between(f, "the activation", f.ints[0], 0, 1);
}

void embed(const InstructionFields& f) {
  check_equal(f, "the output's width", f.outputs[0].width, matrix(f.inputs[0]).columns);
}

void angles(const InstructionFields& f) {
  check_equal(f, "the output's width", f.outputs[0].width, int64_t{2} * f.inputs[0].width);
}

void gather(const InstructionFields& f) {
  equal_widths(f);
  if (f.inputs[0].row_kind == RowKind::kTokens && f.outputs[0].row_kind == RowKind::kLogits) return;
  refuse(f, "takes rows of kind tokens and gives rows of kind logits");
}

void check_matrix(const InstructionFields& f, const PackedMatrix& m) {
  check_equal(f, "the number of matrix columns", m.columns, f.inputs[0].width);
  if (is_float(m)) {
    check_between(f, "the number of float columns", m.columns, 1, kMaxFloatColumns);
  }
  if ((f.inputs[0].dtype == DType::kF32) == is_float(m)) return;
  refuse(f, "matrices of F32, F16 and BF16 take float32 rows, all others q8 rows");
}

void linear(const InstructionFields& f) {
  check_between(f, "the mode", f.ints[1], 0, 1);
  int64_t width = 0;
  for (size_t i = 1; i < f.inputs.size(); i += 2) {
    const PackedMatrix& m = matrix(f.inputs[i]);
    check_matrix(f, m);
    if (f.inputs[i + 1].kind == OperandKind::kVector) {
      check_equal(f, "the bias's width", f.inputs[i + 1].width, m.rows);
    }
    width += m.rows;
  }
  check_equal(f, "the output's width", f.outputs[0].width, width);
}

void linear_gated(const InstructionFields& f) {
  check_between(f, "the activation", f.ints[0], 0, 1);
  for (size_t i = 1; i <= 2; ++i) {
    check_matrix(f, matrix(f.inputs[i]));
    check_equal(f, "the number of matrix rows", matrix(f.inputs[i]).rows, f.outputs[0].width);
  }
}

// `heads` heads of `dim` columns in `o`.
void check_heads(const InstructionFields& f, const Operand& o, int64_t heads, int64_t dim) {
  check_between(f, "the number of heads", heads, 1, kMaxHeads);
  check_between(f, "the head size", dim, 1, INT32_MAX / kMaxHeads);
  check_equal(f, "the width of the heads", o.width, heads * dim);
}

void head_norm(const InstructionFields& f) {
  check_heads(f, f.inputs[0], f.ints[0], f.ints[1]);
  check_heads(f, f.outputs[0], f.ints[0], f.ints[1]);
  check_equal(f, "the norm's width", f.inputs[1].width, f.ints[1]);
}

void check_angles(const InstructionFields& f, const Operand& o, int64_t dim) {
  check_between(f, "the width of the angles", o.width, 2, dim);
  check_equal(f, "the width of the angles modulo 2", o.width % 2, 0);
}

void rope(const InstructionFields& f) {
  check_heads(f, f.inputs[0], f.ints[0], f.ints[1]);
  check_heads(f, f.outputs[0], f.ints[0], f.ints[1]);
  check_angles(f, f.inputs[1], f.ints[1]);
}

void check_pages(const InstructionFields& f, const KvLayer& kv, int64_t heads, int64_t dim) {
  check_equal(f, "the number of heads of the pages", kv.num_kv_heads, heads);
  check_equal(f, "the head size of the pages", kv.head_dim, dim);
}

// What keys lose: a vector of all their heads, but for `turning` columns of each half that rotates.
void check_key_offset(const InstructionFields& f, const Operand& offset, int64_t width,
                      int64_t rotary, int64_t turning) {
  check_between(f, "the number of turning columns", turning, 0, rotary / 2);
  if (offset.kind != OperandKind::kNone) check_equal(f, "the offset's width", offset.width, width);
}

void write_pages(const InstructionFields& f) {
  const KvLayer& kv = pages(f.inputs[2]);
  check_pages(f, kv, kv.num_kv_heads, kv.head_dim);
  check_between(f, "the number of rotated columns", f.ints[0], 0, kv.head_dim);
  check_key_offset(f, f.inputs[3], kv.num_kv_heads * kv.head_dim, f.ints[0], f.ints[1]);
  for (size_t i = 0; i < 2; ++i) check_heads(f, f.inputs[i], kv.num_kv_heads, kv.head_dim);
}

void rope_write_pages(const InstructionFields& f) {
  const int64_t q_heads = f.ints[0], kv_heads = f.ints[1], dim = f.ints[2];
  check_between(f, "the number of heads", q_heads, 1, kMaxHeads);
  check_pages(f, pages(f.inputs[2]), kv_heads, dim);
  check_equal(f, "the width of the heads", f.inputs[0].width, (q_heads + 2 * kv_heads) * dim);
  check_angles(f, f.inputs[1], dim);
  for (size_t i = 3; i <= 4; ++i) {
    if (f.inputs[i].kind == OperandKind::kNone) continue;
    check_equal(f, "the norm's width", f.inputs[i].width, dim);
  }
  check_key_offset(f, f.inputs[5], kv_heads * dim, f.inputs[1].width, f.ints[3]);
}

void attention(const InstructionFields& f) {
  const int64_t q_heads = f.ints[0], kv_heads = f.ints[1], dim = f.ints[2];
  check_heads(f, f.inputs[0], q_heads, dim);
  check_heads(f, f.outputs[0], q_heads, dim);
  check_pages(f, pages(f.inputs[1]), kv_heads, dim);
  check_equal(f, "the number of query heads modulo that of key heads", q_heads % kv_heads, 0);
  check_between(f, "the window", f.ints[3], 0, INT32_MAX);
}

void attention_quantize(const InstructionFields& f) {
  attention(f);
  check_equal(f, "the head size modulo 32", f.ints[2] % kGroup, 0);
}

// ---- Signatures ----

// Operand letters: f = float32 rows, q = q8 rows, x = either, v = vector, m = matrix, k = pages,
// V = vector or none. `more` repeats after `inputs`, ints[0] times. `check` comes last, when the
// operands are known to be of these kinds.
struct Signature {
  const char* kernel;
  const char* inputs;
  const char* more;
  const char* outputs;
  size_t num_ints;
  size_t num_floats;
  void (*check)(const InstructionFields&);
};

constexpr Signature kSignatures[] = {
    {"embed", "m", "", "f", 0, 1, embed},
    {"rope_angles", "v", "", "f", 0, 1, angles},
    {"rms_norm", "fv", "", "f", 0, 1, equal_widths},
    {"rms_norm_quantize", "fv", "", "q", 0, 1, equal_widths},
    {"rms_norm_add", "fv", "", "f", 0, 1, equal_widths},
    {"quantize", "f", "", "q", 0, 0, equal_widths},
    {"gather_rows", "f", "", "f", 0, 0, gather},
    {"linear", "x", "mV", "f", 2, 0, linear},
    {"linear_gated", "xmm", "", "f", 1, 0, linear_gated},
    {"linear_gated_quantize", "xmm", "", "q", 1, 0, linear_gated},
    {"gated_activation", "ff", "", "f", 1, 0, gated},
    {"head_rms_norm", "fv", "", "f", 2, 1, head_norm},
    {"rope", "ff", "", "f", 2, 0, rope},
    {"write_pages", "ffkV", "", "", 2, 0, write_pages},
    {"rope_write_pages", "ffkVVV", "", "f", 4, 1, rope_write_pages},
    {"attention", "fk", "", "f", 4, 2, attention},
    {"attention_quantize", "fk", "", "q", 4, 2, attention_quantize},
    {"add", "ff", "", "f", 0, 0, equal_widths},
    {"softcap", "f", "", "f", 0, 1, equal_widths},
};

const Signature& find_signature(const InstructionFields& fields) {
  for (const Signature& signature : kSignatures) {
    if (fields.kernel == signature.kernel) return signature;
  }
  refuse(fields, "there is no kernel of this name");
}

const char* letter_name(char letter) {
  switch (letter) {
    case 'f':
      return "float32 rows";
    case 'q':
      return "q8 rows";
    case 'x':
      return "float32 or q8 rows";
    case 'v':
      return "a vector";
    case 'V':
      return "a vector or none";
    case 'm':
      return "a matrix";
    default:
      return "key/value pages";
  }
}

bool matches(char letter, const Operand& o) {
  const bool arena = o.kind == OperandKind::kArena;
  switch (letter) {
    case 'f':
      return arena && o.dtype == DType::kF32;
    case 'q':
      return arena && o.dtype == DType::kQ8;
    case 'x':
      return arena && (o.dtype == DType::kF32 || o.dtype == DType::kQ8);
    case 'v':
      return o.kind == OperandKind::kVector;
    case 'V':
      return o.kind == OperandKind::kVector || o.kind == OperandKind::kNone;
    case 'm':
      return o.kind == OperandKind::kMatrix;
    default:
      return o.kind == OperandKind::kKv;
  }
}

void check_count(const InstructionFields& fields, const char* what, size_t given, size_t wanted) {
  if (given == wanted) return;
  refuse(fields, "has " + std::to_string(given) + " " + what + " where the kernel takes " +
                     std::to_string(wanted));
}

void check_operands(const InstructionFields& fields, const char* what,
                    const std::vector<Operand>& operands, const std::string& letters) {
  check_count(fields, what, operands.size(), letters.size());
  for (size_t i = 0; i < letters.size(); ++i) {
    if (matches(letters[i], operands[i])) continue;
    refuse(fields, "the kernel takes " + std::string(letter_name(letters[i])) + " at " + what +
                       "[" + std::to_string(i) + "]");
  }
}

std::string input_letters(const InstructionFields& fields, const Signature& signature) {
  std::string letters = signature.inputs;
  if (*signature.more == '\0') return letters;
  constexpr int64_t kMaxSegments = 16;
  check_between(fields, "the number of segments", fields.ints[0], 1, kMaxSegments);
  for (int64_t i = 0; i < fields.ints[0]; ++i) letters += signature.more;
  return letters;
}

}  // namespace

Instruction make_instruction(const KernelTable& table, InstructionFields fields) {
  const Signature& signature = find_signature(fields);
  const KernelFunction kernel = find_kernel(table, fields.kernel);
  if (kernel == nullptr) refuse(fields, "this instruction-set level has no such kernel");
  check_count(fields, "ints", fields.ints.size(), signature.num_ints);
  check_count(fields, "floats", fields.floats.size(), signature.num_floats);
  check_operands(fields, "inputs", fields.inputs, input_letters(fields, signature));
  check_operands(fields, "outputs", fields.outputs, signature.outputs);
  signature.check(fields);
  return {kernel,
          fields.rows,
          std::move(fields.inputs),
          std::move(fields.outputs),
          std::move(fields.ints),
          std::move(fields.floats)};
}

}  // namespace octavo
