// The Python face of runtime/machine_probe.h.
#pragma once

#include <nanobind/nanobind.h>

namespace octavo {

void bind_machine_probe(nanobind::module_& m);

}  // namespace octavo
