// The instruction-set levels compiled into this extension, and the kernel table of each.
// A kernel source in kernels/ is compiled once per level inside `namespace octavo::OCTAVO_LEVEL`.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "octavo/machine_probe.h"
#include "octavo/program.h"
#include "octavo/round_row.h"
#include "octavo/row_passes.h"

namespace octavo {

// Kernels of one level. `row_block` is the number of rows that the level's matrix kernels hold in
// registers; int8 activations are laid out in panels of that many rows.
struct KernelTable {
  const KernelEntry* entries;
  int num_entries;
  int row_block;
};

struct Level {
  const char* name;  // "scalar", "avx2", ...: docs/instruction_sets.md
  const KernelTable& (*table)();
  const RowPasses& (*row_passes)();
  const MachineProbe& (*machine_probe)();
  RoundRow round_row;
};

// Levels that this build holds and this processor runs, slowest first as far as that was measured;
// the last is taken where none is named.
std::vector<Level> available_levels();
// Throws std::invalid_argument, naming the available ones, for another name.
Level find_level(const std::string& name);
// Null when there is no kernel of that name.
KernelFunction find_kernel(const KernelTable& table, std::string_view name);

}  // namespace octavo
