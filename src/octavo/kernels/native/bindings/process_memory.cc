// What has been freed goes back to the system, where the C library can be told to.
#include "bindings/process_memory.h"

#include <cstdlib>

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace octavo {
namespace {

void trim_memory() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

}  // namespace

void bind_process_memory(nanobind::module_& m) {
  m.def("trim_memory", &trim_memory, nanobind::call_guard<nanobind::gil_scoped_release>());
}

}  // namespace octavo
