// Which of the compiled instruction-set levels this processor (and its operating system) can run.
#include "octavo/levels.h"

#include <stdexcept>

#if defined(OCTAVO_X86)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(OCTAVO_ARM)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#define OCTAVO_DECLARE_LEVEL(level)                                \
  namespace octavo::level {                                        \
  const KernelTable& kernel_table();                               \
  const RowPasses& row_passes();                                   \
  const MachineProbe& machine_probe();                             \
  void round_row(WeightFormat, const float*, int64_t, std::byte*); \
  }
OCTAVO_DECLARE_LEVEL(scalar)
#if defined(OCTAVO_X86)
OCTAVO_DECLARE_LEVEL(avx2)
OCTAVO_DECLARE_LEVEL(avx2_vnni)
OCTAVO_DECLARE_LEVEL(avx512)
OCTAVO_DECLARE_LEVEL(avx512_vnni)
OCTAVO_DECLARE_LEVEL(avx512_bf16)
OCTAVO_DECLARE_LEVEL(amx)
#elif defined(OCTAVO_ARM)
OCTAVO_DECLARE_LEVEL(neon)
OCTAVO_DECLARE_LEVEL(neon_dotprod)
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
bool runs_avx512_bf16() { return runs_avx512_vnni() && __builtin_cpu_supports("avx512bf16"); }
// The system gives a process room for tile registers only when asked (arch_prctl); it refuses where
// a thread's signal stack is too small for them.
bool runs_amx() {
  constexpr unsigned kBf16 = 1u << 22, kTiles = 1u << 24, kInt8 = 1u << 25;  // of leaf 7, EDX
  constexpr unsigned kAll = kBf16 | kTiles | kInt8;
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (!runs_avx512_bf16() || !__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx)) return false;
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  return (edx & kAll) == kAll && syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}
bool runs_avx2_vnni() {
#if defined(OCTAVO_EVEX_VNNI)
  return runs_avx512_vnni();
#else
  constexpr unsigned kAvxVnni = 1u << 4;  // of leaf 7, subleaf 1, EAX
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return runs_avx2() && __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) && (eax & kAvxVnni) != 0;
#endif
}
#elif defined(OCTAVO_ARM)
bool runs_neon_dotprod() { return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0; }
#endif

}  // namespace

#define OCTAVO_LEVEL_ENTRY(level) \
  {#level, level::kernel_table, level::row_passes, level::machine_probe, level::round_row}

std::vector<Level> available_levels() {
  std::vector<Level> levels{OCTAVO_LEVEL_ENTRY(scalar)};
#if defined(OCTAVO_X86)
  __builtin_cpu_init();
  if (runs_avx2()) levels.push_back(OCTAVO_LEVEL_ENTRY(avx2));
  if (runs_avx2_vnni()) levels.push_back(OCTAVO_LEVEL_ENTRY(avx2_vnni));
  if (runs_avx512()) levels.push_back(OCTAVO_LEVEL_ENTRY(avx512));
  if (runs_avx512_vnni()) levels.push_back(OCTAVO_LEVEL_ENTRY(avx512_vnni));
  // Before the level it is made of: it has run under emulation only, so it is to be asked for.
  if (runs_amx()) levels.push_back(OCTAVO_LEVEL_ENTRY(amx));
  if (runs_avx512_bf16()) levels.push_back(OCTAVO_LEVEL_ENTRY(avx512_bf16));
#elif defined(OCTAVO_ARM)
  levels.push_back(OCTAVO_LEVEL_ENTRY(neon));
  if (runs_neon_dotprod()) levels.push_back(OCTAVO_LEVEL_ENTRY(neon_dotprod));
#endif
  return levels;
}
#undef OCTAVO_LEVEL_ENTRY

Level find_level(const std::string& name) {
  std::string names;
  for (const Level& level : available_levels()) {
    if (name == level.name) return level;
    names += std::string(names.empty() ? "" : ", ") + level.name;
  }
  throw std::invalid_argument("level is \"" + name + "\"; this machine runs " + names);
}

KernelFunction find_kernel(const KernelTable& table, std::string_view name) {
  for (int i = 0; i < table.num_entries; ++i) {
    if (name == table.entries[i].name) return table.entries[i].function;
  }
  return nullptr;
}

}  // namespace octavo
