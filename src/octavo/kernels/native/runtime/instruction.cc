// Signatures of the kernels and the checks that hold instructions to them.
#include "runtime/instruction.h"

#include <stdexcept>
#include <utility>

namespace octavo {

namespace {

// Operand letters: f = float32 rows, q = q8 rows, x = either, v = vector, m = matrix, k = pages;
// a capital letter may also be absent. `more` repeats after `inputs`, ints[0] times.
struct Signature {
  const char* kernel;
  const char* inputs;
  const char* more;
  const char* outputs;
  size_t num_ints;
  size_t num_floats;
};

constexpr Signature kSignatures[] = {
    {"embed", "m", "", "f", 0, 1},          {"rope_angles", "v", "", "f", 0, 1},
    {"rms_norm", "fv", "", "f", 0, 1},      {"rms_norm_quantize", "fv", "", "q", 0, 1},
    {"rms_norm_add", "fv", "", "f", 0, 1},  {"quantize", "f", "", "q", 0, 0},
    {"gather_rows", "f", "", "f", 0, 0},    {"linear", "x", "mV", "f", 2, 0},
    {"linear_gated", "xmm", "", "f", 1, 0}, {"gated_activation", "ff", "", "f", 1, 0},
    {"head_rms_norm", "fv", "", "f", 2, 1}, {"rope", "ff", "", "f", 2, 0},
    {"write_pages", "ffk", "", "", 0, 0},   {"rope_write_pages", "ffkVV", "", "f", 3, 1},
    {"attention", "fk", "", "f", 4, 2},     {"add", "ff", "", "f", 0, 0},
    {"softcap", "f", "", "f", 0, 1},
};

[[noreturn]] void refuse(const InstructionFields& fields, const std::string& what) {
  throw std::invalid_argument(fields.kernel + ": " + what);
}

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
  const int64_t segments = fields.ints[0];
  if (segments < 1 || segments > kMaxSegments) {
    refuse(fields, "has " + std::to_string(segments) + " segments; 1 to 16 are allowed");
  }
  for (int64_t i = 0; i < segments; ++i) letters += signature.more;
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
  return {kernel,
          fields.rows,
          std::move(fields.inputs),
          std::move(fields.outputs),
          std::move(fields.ints),
          std::move(fields.floats)};
}

}  // namespace octavo
