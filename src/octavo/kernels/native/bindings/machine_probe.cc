// Measuring the machine from Python. The stub is kernels/_native.pyi.
#include "runtime/machine_probe.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <string>
#include <tuple>

#include "bindings/machine_probe.h"
#include "octavo/levels.h"
#include "runtime/thread_pool.h"

namespace nb = nanobind;

namespace octavo {
namespace {

double measure_read_rate(ThreadPool& pool, const std::string& level, int64_t num_bytes,
                         int passes) {
  const MachineProbe& probe = find_level(level).machine_probe();
  const nb::gil_scoped_release release;
  return read_rate(pool, probe, num_bytes, passes);
}

std::tuple<double, double, double> measure_arithmetic_rates(ThreadPool& pool,
                                                            const std::string& level,
                                                            double seconds, int passes) {
  const MachineProbe& probe = find_level(level).machine_probe();
  const nb::gil_scoped_release release;
  const ArithmeticRates rates = arithmetic_rates(pool, probe, seconds, passes);
  return {rates.int8_operations_per_second, rates.f32_operations_per_second,
          rates.bf16_operations_per_second};
}

}  // namespace

void bind_machine_probe(nb::module_& m) {
  m.def("measure_read_rate", &measure_read_rate, nb::arg("pool"), nb::arg("level"),
        nb::arg("num_bytes"), nb::arg("passes"));
  m.def("measure_arithmetic_rates", &measure_arithmetic_rates, nb::arg("pool"), nb::arg("level"),
        nb::arg("seconds"), nb::arg("passes"));
}

}  // namespace octavo
