// The one place where the native core checks what KERNELS.md promises: an instruction that was made
// here has the operands, constants and widths that its kernel relies on.
#pragma once

#include <string>
#include <vector>

#include "octavo/levels.h"

namespace octavo {

struct InstructionFields {
  std::string kernel;
  RowKind rows = RowKind::kTokens;
  std::vector<Operand> inputs;
  std::vector<Operand> outputs;
  std::vector<int64_t> ints;
  std::vector<float> floats;
};

// Throws std::invalid_argument naming the kernel and what does not fit.
Instruction make_instruction(const KernelTable& table, InstructionFields fields);

}  // namespace octavo
