// Which of the compiled instruction-set levels this processor (and its operating system) can run.
#include "octavo/levels.h"

#define OCTAVO_DECLARE_LEVEL(level)  \
  namespace octavo::level {          \
  const KernelTable& kernel_table(); \
  const RowPasses& row_passes();     \
  }
OCTAVO_DECLARE_LEVEL(scalar)
#if defined(OCTAVO_X86)
OCTAVO_DECLARE_LEVEL(avx2)
OCTAVO_DECLARE_LEVEL(avx512)
OCTAVO_DECLARE_LEVEL(avx512_vnni)
#endif
#undef OCTAVO_DECLARE_LEVEL

namespace octavo {

namespace {

#if defined(OCTAVO_X86)
// The compiler's run-time support reads CPUID and XGETBV: a feature counts only when the operating
// system saves its registers too.
bool runs_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("f16c");
}
bool runs_avx512() {
  return runs_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
bool runs_avx512_vnni() { return runs_avx512() && __builtin_cpu_supports("avx512vnni"); }
#endif

}  // namespace

std::vector<Level> available_levels() {
  std::vector<Level> levels{{"scalar", scalar::kernel_table, scalar::row_passes}};
#if defined(OCTAVO_X86)
  __builtin_cpu_init();
  if (runs_avx2()) levels.push_back({"avx2", avx2::kernel_table, avx2::row_passes});
  if (runs_avx512()) levels.push_back({"avx512", avx512::kernel_table, avx512::row_passes});
  if (runs_avx512_vnni())
    levels.push_back({"avx512_vnni", avx512_vnni::kernel_table, avx512_vnni::row_passes});
#endif
  return levels;
}

KernelFunction find_kernel(const KernelTable& table, std::string_view name) {
  for (int i = 0; i < table.num_entries; ++i) {
    if (name == table.entries[i].name) return table.entries[i].function;
  }
  return nullptr;
}

}  // namespace octavo
