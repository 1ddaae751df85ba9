// The Python face of runtime/kv_cache.h.
#pragma once

#include <nanobind/nanobind.h>

namespace octavo {

void bind_kv_cache(nanobind::module_& m);

}  // namespace octavo
