// Reading many length-prefixed strings at once.
#pragma once

#include <nanobind/nanobind.h>

namespace octavo {

void bind_string_array(nanobind::module_& m);

}  // namespace octavo
