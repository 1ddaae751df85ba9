// The kernels of one instruction-set level: the one list from which the level's table is made.
#pragma once

#include "octavo/levels.h"
#include "octavo/machine_probe.h"
#include "octavo/program.h"
#include "octavo/round_row.h"
#include "octavo/row_passes.h"

// Every kernel of KERNELS.md that exists. Each is
//   void NAME(const KernelCall& call);
// in namespace octavo::OCTAVO_LEVEL, defined in some kernels/*.cc. A line here without its function
// does not link, a function without its line is not found by programs: add both in one commit.
// One a line, so that additions merge.
// clang-format off
#define OCTAVO_KERNELS(X) \
  X(quantize) \
  X(linear) \
  X(linear_gated) \
  X(linear_gated_quantize) \
  X(embed) \
  X(add) \
  X(attention) \
  X(attention_quantize) \
  X(gated_activation) \
  X(gather_rows) \
  X(head_rms_norm) \
  X(rms_norm) \
  X(rms_norm_add) \
  X(rms_norm_quantize) \
  X(rope) \
  X(rope_angles) \
  X(rope_write_pages) \
  X(softcap) \
  X(write_pages)
// clang-format on

namespace octavo::OCTAVO_LEVEL {

#define OCTAVO_DECLARE_KERNEL(name) void name(const KernelCall& call);
OCTAVO_KERNELS(OCTAVO_DECLARE_KERNEL)
#undef OCTAVO_DECLARE_KERNEL

const KernelTable& kernel_table();
const RowPasses& row_passes();
const MachineProbe& machine_probe();
void round_row(WeightFormat target, const float* values, int64_t count, std::byte* blocks);

}  // namespace octavo::OCTAVO_LEVEL
