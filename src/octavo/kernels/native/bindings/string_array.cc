// Strings as model files hold vocabularies: a 64-bit little-endian length, then UTF-8, over and
// over. Trusts no length. They come out in one piece: Python's own loop takes 1 us a string, and
// its strings ten times their text; a vocabulary has hundreds of thousands.
#include "bindings/string_array.h"

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

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

// Python's own decoder says what UTF-8 is, as it will decode these bytes later.
bool is_utf8(const char* bytes, uint64_t length) {
  PyObject* const text = PyUnicode_DecodeUTF8(bytes, static_cast<Py_ssize_t>(length), nullptr);
  if (text != nullptr) {
    Py_DECREF(text);
    return true;
  }
  if (!PyErr_ExceptionMatches(PyExc_UnicodeDecodeError)) nb::raise_python_error();
  PyErr_Clear();
  return false;
}

// Behind each string: no byte of UTF-8, so that Python can cut them apart in one call.
constexpr char kEnd = '\xff';

struct Strings {
  std::string data;
  std::vector<uint64_t> starts{0};
  int64_t end;  // position behind the last
};

// Ends early before a string that is longer than allowed, passes the end, or is no UTF-8.
Strings read_strings(const Bytes& bytes, int64_t position, int64_t count, int64_t max_bytes) {
  Strings strings;
  for (int64_t i = 0; i < count; ++i) {
    if (position < 0 || position > bytes.size() - 8) break;
    const uint64_t length = read_u64(bytes.data() + position);
    const int64_t remaining = bytes.size() - 8 - position;
    if (length > static_cast<uint64_t>(max_bytes) || length > static_cast<uint64_t>(remaining))
      break;
    const char* const text = bytes.data() + position + 8;
    if (!is_utf8(text, length)) break;
    strings.data.append(text, length).push_back(kEnd);
    strings.starts.push_back(strings.data.size());
    position += 8 + static_cast<int64_t>(length);
  }
  strings.end = position;
  return strings;
}

}  // namespace

void bind_string_array(nb::module_& m) {
  m.def(
      "read_strings",
      [](nb::handle buffer, int64_t position, int64_t count, int64_t max_bytes) {
        const Strings strings = read_strings(Bytes(buffer), position, count, max_bytes);
        return nb::make_tuple(
            nb::bytes(strings.data.data(), strings.data.size()),
            nb::bytes(strings.starts.data(), strings.starts.size() * sizeof(uint64_t)),
            strings.end);
      },
      nb::arg("buffer"), nb::arg("position"), nb::arg("count"), nb::arg("max_bytes"));
}

}  // namespace octavo
