// Memory of the whole process, beyond what the core allocates itself.
#pragma once

#include <nanobind/nanobind.h>

namespace octavo {

void bind_process_memory(nanobind::module_& m);

}  // namespace octavo
