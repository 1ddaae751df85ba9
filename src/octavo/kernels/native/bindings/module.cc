// The Python face of the native core. No file outside bindings/ knows Python.
// Its stub, with the documentation, is kernels/_native.pyi.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

#include "bindings/arrays.h"
#include "bindings/kv_cache.h"
#include "bindings/machine_probe.h"
#include "bindings/process_memory.h"
#include "bindings/string_array.h"
#include "formats/activation.h"
#include "octavo/levels.h"
#include "runtime/instruction.h"
#include "runtime/kv_cache.h"
#include "runtime/matrix.h"
#include "runtime/program.h"
#include "runtime/sampler.h"
#include "runtime/thread_pool.h"

namespace nb = nanobind;

namespace octavo {
namespace {

using RowCounts = std::array<int64_t, kNumRowKinds>;

std::vector<std::string> isa_levels() {
  std::vector<std::string> names;
  for (const Level& level : available_levels()) names.insert(names.begin(), level.name);
  return names;
}

int64_t checked_activation_row_bytes(int64_t width) {
  if (width < 1 || width > INT32_MAX || width % kGroup != 0) {
    throw std::invalid_argument("width is " + std::to_string(width) +
                                "; a positive multiple of 32 is allowed");
  }
  return activation_row_bytes(width);
}

// ---- Matrices ----

NumpyF32 dequantize_array(const std::string& type_name, const Array<uint8_t, 1>& data,
                          int64_t count) {
  const WeightFormat type = parse_format(type_name);
  check_source(type, static_cast<int64_t>(data.nbytes()), 1, count);
  NumpyF32 out = new_array<float>({static_cast<size_t>(count)});
  const nb::gil_scoped_release release;
  dequantize(type, reinterpret_cast<const std::byte*>(data.data()), count, out.data());
  return out;
}

Matrix pack_matrix(ThreadPool& pool, const std::string& source_type, const Array<uint8_t, 1>& data,
                   int64_t rows, int64_t columns, const std::string& target_format,
                   const std::optional<Array<int32_t, 1>>& row_order, WeightMemory* memory,
                   const std::optional<std::string>& level) {
  MatrixSource source{parse_format(source_type), reinterpret_cast<const std::byte*>(data.data()),
                      static_cast<int64_t>(data.nbytes()), nullptr};
  if (row_order.has_value()) {
    if (static_cast<int64_t>(row_order->size()) != rows) {
      throw std::invalid_argument("row_order has " + std::to_string(row_order->size()) +
                                  " entries for " + std::to_string(rows) + " rows");
    }
    source.row_order = row_order->data();
  }
  const WeightFormat target = parse_format(target_format);
  static const Level fastest = available_levels().back();
  const RoundRow round = (level.has_value() ? find_level(*level) : fastest).round_row;
  const nb::gil_scoped_release release;
  WeightMemory own(0);
  return Matrix(pool, memory ? *memory : own, source, rows, columns, target, round);
}

NumpyF32 unpack_matrix(const Matrix& matrix) {
  const PackedMatrix& m = matrix.packed();
  NumpyF32 out = new_array<float>({static_cast<size_t>(m.rows), static_cast<size_t>(m.columns)});
  const nb::gil_scoped_release release;
  for (int64_t row = 0; row < m.rows; ++row) unpack_row(m, row, out.data() + row * m.columns);
  return out;
}

// ---- Steps and programs ----

// Holds the arrays, so that the pointers of `view` stay good.
struct StepBuffers {
  Array<int32_t, 1> token_ids, positions, token_sequences;
  Array<int64_t, 2> slots;
  Array<int32_t, 1> query_starts, context_lengths;
  Array<int32_t, 2> page_tables;
  Array<int32_t, 1> logit_rows;

  StepView view(int64_t num_tokens, int64_t num_sequences, int64_t num_logit_rows) const {
    check("token_ids", num_tokens, token_ids.size());
    check("positions", num_tokens, positions.size());
    check("token_sequences", num_tokens, token_sequences.size());
    check("slots", num_tokens, slots.shape(0));
    check("query_starts", num_sequences + 1, query_starts.size());
    check("context_lengths", num_sequences, context_lengths.size());
    check("page_tables", num_sequences, page_tables.shape(0));
    check("logit_rows", num_logit_rows, logit_rows.size());
    StepView view;
    view.num_tokens = static_cast<int32_t>(num_tokens);
    view.num_sequences = static_cast<int32_t>(num_sequences);
    view.num_logit_rows = static_cast<int32_t>(num_logit_rows);
    view.token_ids = token_ids.data();
    view.positions = positions.data();
    view.token_sequences = token_sequences.data();
    view.slots = slots.data();
    view.query_starts = query_starts.data();
    view.context_lengths = context_lengths.data();
    view.page_tables = page_tables.data();
    view.page_table_stride = static_cast<int64_t>(page_tables.shape(1));
    view.num_page_groups = static_cast<int64_t>(slots.shape(1));
    view.logit_rows = logit_rows.data();
    return view;
  }

  static void check(const char* name, int64_t wanted, size_t held) {
    if (wanted >= 0 && wanted <= INT32_MAX && wanted <= static_cast<int64_t>(held)) return;
    throw std::invalid_argument("the step needs " + std::to_string(wanted) + " entries of " + name +
                                ", which holds " + std::to_string(held));
  }
};

Operand parse_operand(const nb::tuple& spec) {
  if (spec.size() != 8) {
    throw std::invalid_argument("an operand has 8 fields, not " + std::to_string(spec.size()));
  }
  const auto kind = nb::cast<int>(spec[0]);
  const auto row_kind = nb::cast<int>(spec[1]);
  const auto dtype = nb::cast<int>(spec[2]);
  if (kind < 0 || kind > 4 || row_kind < 0 || row_kind >= kNumRowKinds || dtype < 0 || dtype > 3) {
    throw std::invalid_argument("operand kind " + std::to_string(kind) + ", row kind " +
                                std::to_string(row_kind) + ", dtype " + std::to_string(dtype) +
                                ": at most 4, 2 and 3 are allowed");
  }
  Operand o;
  o.kind = static_cast<OperandKind>(kind);
  o.row_kind = static_cast<RowKind>(row_kind);
  o.dtype = static_cast<DType>(dtype);
  o.width = nb::cast<int32_t>(spec[3]);
  o.arena_offset = nb::cast<int64_t>(spec[4]);
  o.column_bytes = nb::cast<int64_t>(spec[5]);
  o.row_stride = nb::cast<int64_t>(spec[6]);
  return o;
}

const float* vector_data(const nb::handle& object, int32_t width) {
  const auto array = nb::cast<Array<float, 1>>(object, /*convert=*/false);
  if (static_cast<int64_t>(array.size()) != width) {
    throw std::invalid_argument("a vector operand of width " + std::to_string(width) + " has " +
                                std::to_string(array.size()) + " elements");
  }
  return array.data();
}

const KvLayer* kv_layer(const nb::handle& object) {
  const auto pair = nb::cast<nb::tuple>(object);
  if (pair.size() != 2) throw std::invalid_argument("a page operand's object is (cache, layer)");
  return &nb::cast<const KvCache&>(pair[0]).layer(nb::cast<int64_t>(pair[1]));
}

const void* operand_object(const Operand& o, const nb::handle& object) {
  switch (o.kind) {
    case OperandKind::kMatrix:
      return &nb::cast<const Matrix&>(object).packed();
    case OperandKind::kVector:
      return vector_data(object, o.width);
    case OperandKind::kKv:
      return kv_layer(object);
    default:
      break;
  }
  if (!object.is_none()) throw std::invalid_argument("an operand of this kind has no object");
  return nullptr;
}

// A program together with the Python objects that its operands point into.
class BoundProgram {
 public:
  BoundProgram(nb::object pool, const std::string& level, const nb::sequence& specs,
               const RowCounts& arena_row_bytes, const RowCounts& max_rows)
      : pool_(std::move(pool)) {
    const KernelTable& table = find_level(level).table();
    std::vector<Instruction> instructions;
    for (const nb::handle spec : specs) {
      instructions.push_back(parse_numbered(table, spec, instructions.size()));
    }
    program_ = std::make_unique<Program>(nb::cast<ThreadPool&>(pool_), std::move(instructions),
                                         ArenaShape{arena_row_bytes, max_rows});
  }

  void run(const StepBuffers& step, int64_t num_tokens, int64_t num_sequences,
           int64_t num_logit_rows) {
    walk(step.view(num_tokens, num_sequences, num_logit_rows), program_->num_instructions(),
         nullptr);
  }
  void run_until(const StepBuffers& step, int64_t num_tokens, int64_t num_sequences,
                 int64_t num_logit_rows, int64_t count) {
    if (count < 0 || count > program_->num_instructions()) {
      throw std::invalid_argument("count is " + std::to_string(count) + "; 0 to " +
                                  std::to_string(program_->num_instructions()) + " are allowed");
    }
    walk(step.view(num_tokens, num_sequences, num_logit_rows), count, nullptr);
  }
  std::vector<double> profile(const StepBuffers& step, int64_t num_tokens, int64_t num_sequences,
                              int64_t num_logit_rows) {
    std::vector<double> seconds(static_cast<size_t>(program_->num_instructions()));
    walk(step.view(num_tokens, num_sequences, num_logit_rows), program_->num_instructions(),
         seconds.data());
    return seconds;
  }

  NumpyF32 view(const nb::handle& self, const nb::tuple& spec, int64_t num_rows) const {
    const Operand o = parse_operand(spec);
    program_->check_operand(o);
    program_->check_num_rows(o.row_kind, num_rows);
    if (o.dtype != DType::kF32) throw std::invalid_argument("only float32 values can be viewed");
    const size_t shape[] = {static_cast<size_t>(num_rows), static_cast<size_t>(o.width)};
    const int64_t strides[] = {o.row_stride / 4, 1};
    return NumpyF32(program_->address(o, num_rows), 2, shape, self, strides);
  }

 private:
  void walk(const StepView& step, int64_t count, double* seconds) {
    program_->check_step(step);
    const nb::gil_scoped_release release;
    program_->run(step, count, seconds);
  }

  std::vector<Operand> parse_operands(const nb::handle& specs) {
    std::vector<Operand> operands;
    for (const nb::handle handle : nb::cast<nb::sequence>(specs)) {
      const auto spec = nb::cast<nb::tuple>(handle);
      Operand o = parse_operand(spec);
      nb::object object = spec[7];
      o.object = operand_object(o, object);
      if (!object.is_none()) objects_.push_back(std::move(object));
      operands.push_back(o);
    }
    return operands;
  }

  Instruction parse_numbered(const KernelTable& table, const nb::handle& spec, size_t number) {
    const std::string where = "instruction " + std::to_string(number) + ": ";
    try {
      return parse_instruction(table, nb::cast<nb::tuple>(spec));
    } catch (const std::invalid_argument& error) {
      throw std::invalid_argument(where + error.what());
    } catch (const std::bad_cast&) {
      throw nb::type_error(
          (where + "a field is not of the type that InstructionSpec says").c_str());
    }
  }

  Instruction parse_instruction(const KernelTable& table, const nb::tuple& spec) {
    if (spec.size() != 6) {
      throw std::invalid_argument("an instruction has 6 fields, not " +
                                  std::to_string(spec.size()));
    }
    const auto rows = nb::cast<int>(spec[1]);
    if (rows < 0 || rows >= kNumRowKinds) {
      throw std::invalid_argument("row kind " + std::to_string(rows) + ": 0 to 2 are allowed");
    }
    InstructionFields fields{nb::cast<std::string>(spec[0]),
                             static_cast<RowKind>(rows),
                             parse_operands(spec[2]),
                             parse_operands(spec[3]),
                             nb::cast<std::vector<int64_t>>(spec[4]),
                             nb::cast<std::vector<float>>(spec[5])};
    return make_instruction(table, std::move(fields));
  }

  nb::object pool_;
  std::vector<nb::object> objects_;
  std::unique_ptr<Program> program_;
};

// ---- Sampling ----

// What some rows of a call ask for beyond their SampleRow, and what came of it.
struct BoundFilters {
  BoundFilters(const nb::bytes& packed, const Array<int32_t, 1>& given_ids)
      : rows(packed.size() / sizeof(FilterRow)),
        ids(given_ids.data(), given_ids.data() + given_ids.size()),
        surprises(rows.size()) {
    if (packed.size() % sizeof(FilterRow) != 0) {
      throw std::invalid_argument("filter rows are cut short");
    }
    std::memcpy(rows.data(), packed.c_str(), packed.size());
  }
  FilterInput input() const {
    return {rows.data(), static_cast<int64_t>(rows.size()), ids.data(),
            static_cast<int64_t>(ids.size())};
  }

  std::vector<FilterRow> rows;
  std::vector<int32_t> ids;
  std::vector<double> surprises;
};

// The native sampler together with the pool it uses.
class BoundSampler {
 public:
  BoundSampler(nb::object pool, const std::string& level, int64_t vocab_size)
      : pool_(std::move(pool)),
        sampler_(nb::cast<ThreadPool&>(pool_), find_level(level).row_passes(), vocab_size) {}

  nb::tuple sample(const nb::ndarray<const float, nb::ndim<2>, nb::device::cpu>& logits,
                   const nb::bytes& packed_rows, const Array<int32_t, 1>& history,
                   const Array<int32_t, 1>& edit_ids, const Array<float, 1>& edit_values,
                   const Array<uint32_t, 2>& masks, BoundFilters* filters) {
    check_arrays(logits, packed_rows, edit_ids.size(), edit_values.size());
    check_masks(masks);
    std::vector<SampleRow> rows(packed_rows.size() / sizeof(SampleRow));
    std::memcpy(rows.data(), packed_rows.c_str(), packed_rows.size());
    const SampleInput input{logits.data(),
                            static_cast<int64_t>(logits.shape(0)),
                            logits.stride(0),
                            rows.data(),
                            static_cast<int64_t>(rows.size()),
                            history.data(),
                            static_cast<int64_t>(history.size()),
                            edit_ids.data(),
                            edit_values.data(),
                            static_cast<int64_t>(edit_ids.size()),
                            masks.data(),
                            static_cast<int64_t>(masks.shape(0))};
    sampler_.check(input);
    const FilterInput wanted = filters == nullptr ? FilterInput{} : filters->input();
    sampler_.check_filters(input, wanted);
    size_t max_top = 0;
    for (const SampleRow& row : rows) {
      if (row.num_top > 0) max_top = std::max(max_top, static_cast<size_t>(row.num_top));
    }
    auto token_ids = new_array<int32_t>({rows.size()});
    auto ranks = new_array<int32_t>({rows.size()});
    auto logprobs = new_array<double>({rows.size()});
    auto top_ids = new_array<int32_t>({rows.size(), max_top});
    auto top_logprobs = new_array<double>({rows.size(), max_top});
    const SampleOutput output{token_ids.data(),
                              ranks.data(),
                              logprobs.data(),
                              top_ids.data(),
                              top_logprobs.data(),
                              static_cast<int64_t>(max_top),
                              filters == nullptr ? nullptr : filters->surprises.data()};
    const int64_t num_undefined = run(input, wanted, output);
    return nb::make_tuple(token_ids, ranks, logprobs, top_ids, top_logprobs, num_undefined);
  }

 private:
  template <typename Logits>
  void check_arrays(const Logits& logits, const nb::bytes& rows, size_t ids, size_t values) const {
    if (static_cast<int64_t>(logits.shape(1)) != sampler_.vocab_size() ||
        (logits.shape(1) > 1 && logits.stride(1) != 1)) {
      throw std::invalid_argument("logits have " + std::to_string(logits.shape(1)) +
                                  " columns; contiguous rows of " +
                                  std::to_string(sampler_.vocab_size()) + " are allowed");
    }
    if (rows.size() % sizeof(SampleRow) != 0 || ids != values) {
      throw std::invalid_argument("sample rows or edits are cut short");
    }
  }
  void check_masks(const Array<uint32_t, 2>& masks) const {
    const int64_t num_words = mask_words(sampler_.vocab_size());
    if (static_cast<int64_t>(masks.shape(1)) == num_words) return;
    throw std::invalid_argument("masks have " + std::to_string(masks.shape(1)) + " words; " +
                                std::to_string(num_words) + " are allowed");
  }
  int64_t run(const SampleInput& input, const FilterInput& filters, const SampleOutput& output) {
    const nb::gil_scoped_release release;
    return sampler_.run(input, filters, output);
  }

  nb::object pool_;
  Sampler sampler_;
};

// ---- The module ----

void bind_data(nb::module_& m) {
  nb::class_<ThreadPool>(m, "ThreadPool")
      .def(nb::init<int>(), nb::arg("num_threads"))
      .def_prop_ro("num_threads", &ThreadPool::num_threads);
  nb::class_<WeightMemory>(m, "WeightMemory").def(nb::init<int64_t>(), nb::arg("chunk_bytes"));
  nb::class_<Matrix>(m, "PackedMatrix")
      .def_static("pack", &pack_matrix, nb::arg("pool"), nb::arg("source_type"),
                  nb::arg("data").noconvert(), nb::arg("rows"), nb::arg("columns"),
                  nb::arg("target_format"), nb::arg("row_order").noconvert() = nb::none(),
                  nb::arg("memory") = nb::none(), nb::arg("level") = nb::none())
      .def("unpack", &unpack_matrix)
      .def_prop_ro("format", [](const Matrix& x) { return format_name(x.packed().format); })
      .def_prop_ro("shape",
                   [](const Matrix& x) { return std::pair(x.packed().rows, x.packed().columns); })
      .def_prop_ro("num_bytes", &Matrix::num_bytes);
}

void bind_program(nb::module_& m) {
  // Converting would copy, and a step would not see what is written into the caller's arrays.
  nb::class_<StepBuffers>(m, "Step").def(
      nb::init<Array<int32_t, 1>, Array<int32_t, 1>, Array<int32_t, 1>, Array<int64_t, 2>,
               Array<int32_t, 1>, Array<int32_t, 1>, Array<int32_t, 2>, Array<int32_t, 1>>(),
      nb::arg("token_ids").noconvert(), nb::arg("positions").noconvert(),
      nb::arg("token_sequences").noconvert(), nb::arg("slots").noconvert(),
      nb::arg("query_starts").noconvert(), nb::arg("context_lengths").noconvert(),
      nb::arg("page_tables").noconvert(), nb::arg("logit_rows").noconvert());
  nb::class_<BoundFilters>(m, "Filters")
      .def(nb::init<const nb::bytes&, const Array<int32_t, 1>&>(), nb::arg("rows"),
           nb::arg("ids").noconvert())
      .def_ro("surprises", &BoundFilters::surprises);
  nb::class_<BoundSampler>(m, "Sampler")
      .def(nb::init<nb::object, const std::string&, int64_t>(), nb::arg("pool"), nb::arg("level"),
           nb::arg("vocab_size"))
      .def("sample", &BoundSampler::sample, nb::arg("logits").noconvert(), nb::arg("rows"),
           nb::arg("history").noconvert(), nb::arg("edit_ids").noconvert(),
           nb::arg("edit_values").noconvert(), nb::arg("masks").noconvert(),
           nb::arg("filters") = nb::none());
  nb::class_<BoundProgram>(m, "Program")
      .def(nb::init<nb::object, const std::string&, const nb::sequence&, const RowCounts&,
                    const RowCounts&>(),
           nb::arg("pool"), nb::arg("level"), nb::arg("instructions"), nb::arg("arena_row_bytes"),
           nb::arg("max_rows"))
      .def("run", &BoundProgram::run, nb::arg("step"), nb::arg("num_tokens"),
           nb::arg("num_sequences"), nb::arg("num_logit_rows"))
      .def("run_until", &BoundProgram::run_until, nb::arg("step"), nb::arg("num_tokens"),
           nb::arg("num_sequences"), nb::arg("num_logit_rows"), nb::arg("count"))
      .def("profile", &BoundProgram::profile, nb::arg("step"), nb::arg("num_tokens"),
           nb::arg("num_sequences"), nb::arg("num_logit_rows"))
      .def(
          "view",
          [](nb::handle_t<BoundProgram> self, const nb::tuple& operand, int64_t num_rows) {
            return nb::cast<BoundProgram&>(self).view(self, operand, num_rows);
          },
          nb::arg("operand"), nb::arg("num_rows"));
}

}  // namespace

NB_MODULE(_native, m) {
  // What is still referenced when the interpreter ends goes with the process; users need no report.
  nb::set_leak_warnings(false);
  m.doc() = "The native core of octavo.";
  m.attr("SAMPLE_ROW_FORMAT") = kSampleRowFormat;
  m.attr("FILTER_ROW_FORMAT") = kFilterRowFormat;
  m.def("isa_levels", &isa_levels);
  m.def(
      "row_block", [](const std::string& level) { return find_level(level).table().row_block; },
      nb::arg("level"));
  m.def("activation_row_bytes", &checked_activation_row_bytes, nb::arg("width"));
  m.def("dequantize", &dequantize_array, nb::arg("type_name"), nb::arg("data").noconvert(),
        nb::arg("count"));
  bind_data(m);
  bind_program(m);
  bind_kv_cache(m);
  bind_machine_probe(m);
  bind_process_memory(m);
  bind_string_array(m);
}

}  // namespace octavo
