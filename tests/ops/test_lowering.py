import pytest

from octavo.errors import RecordingError
from octavo.kernels import DType
from octavo.ops.lowering import lower
from octavo.ops.program import Columns
from octavo.ops.recording import AbstractValue, RecordingOps
from octavo.weights.weight import Weight
from tests.ops.programs import (
    BIAS,
    SQUARE,
    TABLE,
    WIDE,
    WIDE_TOO,
    all_float,
    all_integer,
    kernels,
    record,
)


def _two_readers(ops: RecordingOps) -> AbstractValue:
    x = ops.embed(TABLE)
    return ops.add(ops.linear(x, (WIDE,)), ops.linear(x, (WIDE_TOO,)))


def test_one_quantised_value_serves_all_its_readers() -> None:
    program = lower(record(_two_readers), all_integer)
    assert kernels(program) == ["embed", "quantize", "linear", "linear", "add"]
    quantized = program.instructions[1].outputs[0]
    assert program.values[quantized.value].dtype is DType.Q8
    assert [i.inputs[0] for i in program.instructions[2:4]] == [quantized, quantized]


def test_float_weights_take_float_activations() -> None:
    program = record(_two_readers)
    assert lower(program, all_float) == program


def test_a_value_that_changed_is_quantised_again() -> None:
    def forward(ops: RecordingOps) -> AbstractValue:
        x = ops.embed(TABLE)
        y = ops.linear(x, (SQUARE,))
        return ops.add(y, ops.linear(ops.softcap(x, 5.0), (SQUARE,)))

    program = lower(record(forward), all_integer)
    assert kernels(program) == [
        "embed",
        "quantize",
        "linear",
        "softcap",
        "quantize",
        "linear",
        "add",
    ]


def test_a_stack_of_int_and_float_weights_is_split() -> None:
    other = Weight("other", (32, 64))

    def forward(ops: RecordingOps) -> AbstractValue:
        weights, biases = (SQUARE, WIDE, WIDE_TOO, other), (None, BIAS, None, None)
        return ops.linear(ops.embed(TABLE), weights, biases)

    program = lower(record(forward), lambda weight: weight in (WIDE, WIDE_TOO))
    assert kernels(program) == ["embed", "linear", "quantize", "linear", "linear"]
    linears = [i for i in program.instructions if i.kernel == "linear"]
    assert [i.outputs[0] for i in linears] == [
        Columns(1, 0, 64),
        Columns(1, 64, 192),
        Columns(1, 256, 32),
    ]
    assert [i.inputs[1:] for i in linears] == [
        (SQUARE, None),
        (WIDE, BIAS, WIDE_TOO, None),
        (other, None),
    ]


def test_a_width_that_cannot_be_quantised_is_refused() -> None:
    table, weight = Weight("table", (10, 48)), Weight("weight", (16, 48))
    program = record(lambda ops: ops.linear(ops.embed(table), (weight,)))
    with pytest.raises(RecordingError, match="48 columns"):
        lower(program, all_integer)
