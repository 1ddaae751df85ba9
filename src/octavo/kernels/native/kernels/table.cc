// The kernel table of one instruction-set level.
#include "kernels/kernels.h"
#include "kernels/row_block.h"

namespace octavo::OCTAVO_LEVEL {

const KernelTable& kernel_table() {
#define OCTAVO_KERNEL_ENTRY(name) {#name, name},
  // The empty last entry lets the list itself be empty.
  static constexpr KernelEntry kEntries[] = {OCTAVO_KERNELS(OCTAVO_KERNEL_ENTRY){nullptr, nullptr}};
#undef OCTAVO_KERNEL_ENTRY
  static constexpr int kNumEntries = static_cast<int>(sizeof(kEntries) / sizeof(KernelEntry)) - 1;
  static constexpr KernelTable kTable{kEntries, kNumEntries, kRowBlock};
  return kTable;
}

}  // namespace octavo::OCTAVO_LEVEL
