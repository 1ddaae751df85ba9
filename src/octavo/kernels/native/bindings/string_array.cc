// Strings as model files hold vocabularies: a 64-bit little-endian length, then UTF-8, over and
// over. Trusts no length. Python's own loop takes 1 us a string, a vocabulary has hundreds of
// thousands.
#include "bindings/string_array.h"

#include <cstdint>
#include <cstring>
#include <utility>

namespace nb = nanobind;

namespace octavo {
namespace {

// The bytes of any object with the buffer protocol.
class Bytes {
 public:
  explicit Bytes(nb::handle object) {
    if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_SIMPLE) != 0) nb::raise_python_error();
  }
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;
  ~Bytes() { PyBuffer_Release(&view_); }

  const char* data() const { return static_cast<const char*>(view_.buf); }
  int64_t size() const { return view_.len; }

 private:
  Py_buffer view_;
};

uint64_t read_u64(const char* bytes) {
  uint64_t value = 0;
  for (int i = 0; i < 8; ++i) value |= uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  return value;
}

// Ends early before a string that is longer than allowed, passes the end, or is no UTF-8.
std::pair<nb::list, int64_t> read_strings(nb::handle buffer, int64_t position, int64_t count,
                                          int64_t max_bytes) {
  const Bytes bytes(buffer);
  nb::list strings;
  while (static_cast<int64_t>(nb::len(strings)) < count) {
    if (position < 0 || position > bytes.size() - 8) break;
    const uint64_t length = read_u64(bytes.data() + position);
    const int64_t remaining = bytes.size() - 8 - position;
    if (length > static_cast<uint64_t>(max_bytes) || length > static_cast<uint64_t>(remaining))
      break;
    PyObject* const text =
        PyUnicode_DecodeUTF8(bytes.data() + position + 8, static_cast<Py_ssize_t>(length), nullptr);
    if (text == nullptr) {
      if (!PyErr_ExceptionMatches(PyExc_UnicodeDecodeError)) nb::raise_python_error();
      PyErr_Clear();
      break;
    }
    strings.append(nb::steal(text));
    position += 8 + static_cast<int64_t>(length);
  }
  return {std::move(strings), position};
}

}  // namespace

void bind_string_array(nb::module_& m) {
  m.def(
      "read_strings",
      [](nb::handle buffer, int64_t position, int64_t count, int64_t max_bytes) {
        auto [strings, end] = read_strings(buffer, position, count, max_bytes);
        return nb::make_tuple(std::move(strings), end);
      },
      nb::arg("buffer"), nb::arg("position"), nb::arg("count"), nb::arg("max_bytes"));
}

}  // namespace octavo
