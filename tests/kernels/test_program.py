"""Programs: their checks on instructions, their arenas, and their walk."""

from __future__ import annotations

import gc
import time
import weakref

import numpy as np
import numpy.typing as npt
import pytest

from octavo.kernels import DType, OperandKind, RowKind
from octavo.kernels import _native as native
from tests.kernels.harness import LEVELS, NONE, StepArrays, thread_pool, vector

LEVEL = LEVELS[0]
Operand = tuple[int, int, int, int, int, int, int, None]
KINDS = (0, 1, 2)


def rows(
    width: int = 64,
    *,
    kind: int = RowKind.TOKENS,
    dtype: int = DType.F32,
    offset: int = 0,
    column_bytes: int = 0,
    stride: int | None = None,
) -> Operand:
    if stride is None:
        stride = -(-4 * width // 64) * 64 if dtype == DType.F32 else 0
        stride = stride or native.activation_row_bytes(width)
    return (OperandKind.ARENA, kind, dtype, width, offset, column_bytes, stride, None)


def program(
    *instructions: native.InstructionSpec,
    row_bytes: tuple[int, int, int] = (4096, 4096, 4096),
    max_rows: tuple[int, int, int] = (16, 16, 16),
    num_threads: int = 2,
) -> native.Program:
    return native.Program(thread_pool(num_threads), LEVEL, instructions, row_bytes, max_rows)


def add(a: Operand, b: Operand, out: Operand, kind: int = 0) -> native.InstructionSpec:
    return ("add", kind, [a, b], [out], [], [])


def matrix(num_rows: int, columns: int, name: str = "F32") -> native.OperandSpec:
    values = np.arange(num_rows * columns, dtype=np.float32) / 100
    data = (
        values.view(np.uint8)
        if name == "F32"
        else np.zeros(num_rows * columns // 32 * 18, np.uint8)
    )
    packed = native.PackedMatrix.pack(thread_pool(1), name, data, num_rows, columns, name)
    return (OperandKind.MATRIX, 0, 0, 0, 0, 0, 0, packed)


def pages(num_kv_heads: int = 2, head_dim: int = 16) -> native.OperandSpec:
    cache = native.KvCache(2, [(num_kv_heads, head_dim)], "float32")
    return (OperandKind.KV, 0, 0, 0, 0, 0, 0, (cache, 0))


def ones(width: int) -> native.OperandSpec:
    return vector(np.ones(width, np.float32))


# ---- Addressing ----


@pytest.mark.parametrize("num_tokens", [1, 2, 7, 16])
def test_values_are_dense_for_any_number_of_rows(num_tokens: int) -> None:
    """The second value begins where the first ends, however many rows the step has."""
    first, second = rows(64), rows(48, offset=256)
    p = program()
    a, b = p.view(first, num_tokens), p.view(second, num_tokens)
    distance = b.__array_interface__["data"][0] - a.__array_interface__["data"][0]
    assert distance == 256 * num_tokens
    assert a.shape == (num_tokens, 64)
    assert b.strides == (192, 4)


def test_row_kinds_have_arenas_and_row_counts_of_their_own() -> None:
    tokens, logits = rows(16), rows(16, kind=RowKind.LOGITS)
    p = program(
        add(tokens, tokens, tokens),
        ("gather_rows", RowKind.LOGITS, [tokens], [logits], [], []),
        add(logits, logits, logits, RowKind.LOGITS),
    )
    x = p.view(tokens, 5)
    x[:] = np.arange(5, dtype=np.float32)[:, None]
    step = StepArrays(5, 1, 3, logit_rows=np.array([4, 1, 3], np.int32))
    p.run(step.native(), 5, 1, 3)
    assert p.view(logits, 3)[:, 0].tolist() == [16.0, 4.0, 12.0]
    assert x[:, 15].tolist() == [0.0, 2.0, 4.0, 6.0, 8.0]


def test_instructions_without_rows_are_passed_over() -> None:
    tokens, logits = rows(16), rows(16, kind=RowKind.LOGITS)
    gather: native.InstructionSpec
    gather = ("gather_rows", RowKind.LOGITS, [tokens], [logits], [], [])
    p = program(gather, add(tokens, tokens, tokens), gather, add(tokens, tokens, tokens))
    p.view(tokens, 3)[:] = 1.0
    p.run(StepArrays(3).native(), 3, 1, 0)
    assert np.all(p.view(tokens, 3) == 4.0)


def test_views_of_columns_share_the_rows_of_the_whole() -> None:
    whole = rows(64)
    left = rows(32, stride=256)
    right = rows(32, column_bytes=128, stride=256)
    p = program(add(left, right, right))
    p.view(whole, 2)[:] = np.arange(64, dtype=np.float32)
    p.run(StepArrays(2).native(), 2, 1, 1)
    expected = np.arange(64, dtype=np.float32)
    expected[32:] += expected[:32]
    assert np.array_equal(p.view(whole, 2), np.stack([expected, expected]))


# ---- The walk ----


def test_run_until_runs_the_first_instructions_only() -> None:
    x = rows(16)
    p = program(*[add(x, x, x)] * 6)
    step = StepArrays(2).native()
    for count in range(7):
        p.view(x, 2)[:] = 1.0
        p.run_until(step, 2, 1, 1, count)
        assert np.all(p.view(x, 2) == 2.0**count)
    with pytest.raises(ValueError, match="count is 7; 0 to 6"):
        p.run_until(step, 2, 1, 1, 7)


def test_profile_runs_everything_and_its_times_add_up() -> None:
    x = rows(1024)
    p = program(*[add(x, x, x)] * 50)
    p.view(x, 16)[:] = 2.0**-50
    start = time.perf_counter()
    seconds = p.profile(StepArrays(16).native(), 16, 1, 1)
    elapsed = time.perf_counter() - start
    assert np.all(p.view(x, 16) == 1.0)
    assert len(seconds) == 50
    assert all(s > 0 for s in seconds)
    assert sum(seconds) <= elapsed


def test_a_program_keeps_what_it_points_to_alive() -> None:
    weights = np.full(16, 3.0, np.float32)
    x = rows(16)
    p = native.Program(
        native.ThreadPool(2),
        LEVEL,
        [("rms_norm", 0, [x, vector(weights)], [x], [], [0.0])],
        (64, 0, 0),
        (1, 1, 1),
    )
    kept = weakref.ref(weights)
    del weights
    gc.collect()
    assert kept() is not None
    p.view(x, 1)[:] = 2.0
    p.run(StepArrays(1).native(), 1, 1, 1)
    assert np.allclose(p.view(x, 1), 3.0)
    del p
    gc.collect()
    assert kept() is None


def test_a_view_keeps_its_program_alive() -> None:
    view = program().view(rows(16), 4)
    gc.collect()
    view[:] = 5.0
    assert view.sum() == 5.0 * 64


def test_a_step_sees_what_is_written_later() -> None:
    x, y = rows(16), rows(16, kind=RowKind.LOGITS)
    p = program(("gather_rows", RowKind.LOGITS, [x], [y], [], []))
    p.view(x, 3)[:] = np.arange(3, dtype=np.float32)[:, None]
    logit_rows = np.zeros(1, np.int32)
    step = StepArrays(3, logit_rows=logit_rows).native()
    for row in (2, 0, 1):
        logit_rows[0] = row
        p.run(step, 3, 1, 1)
        assert p.view(y, 1)[0, 0] == row


# ---- Refusals ----


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ((17, 1, 1), "17 entries of token_ids, which holds 16"),
        ((1, 17, 1), "18 entries of query_starts, which holds 17"),
        ((1, 1, 17), "17 entries of logit_rows, which holds 16"),
        ((-1, 1, 1), "-1 entries of token_ids"),
        ((9, 1, 1), "a step of 9 rows of tokens; at most 8"),
    ],
)
def test_steps_of_too_many_rows_are_refused(counts: tuple[int, int, int], message: str) -> None:
    p = program(max_rows=(8, 16, 16))
    with pytest.raises(ValueError, match=message):
        p.run(StepArrays(16, 16, 16).native(), *counts)


def test_step_arrays_that_would_be_copied_are_refused() -> None:
    def step(token_ids: npt.NDArray[np.int32], slots: npt.NDArray[np.int64]) -> native.Step:
        i, table = np.zeros(4, np.int32), np.zeros((1, 1), np.int32)
        return native.Step(token_ids, i, i, slots, i, i, table, i)

    ints, longs = np.zeros(8, np.int32), np.zeros((4, 1), np.int64)
    step(ints, longs)
    with pytest.raises(TypeError):
        step(ints[::2], longs)
    with pytest.raises(TypeError):
        step(ints, ints[:, None])  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        step(ints, longs[:, 0])
    with pytest.raises(TypeError):
        step(ints.reshape(2, 4), longs)


BAD_OPERANDS = [
    (rows(64, stride=192), "64 float32 from byte 0 do not fit a row_stride of 192"),
    (rows(64, stride=260), "multiples of 64"),
    (rows(64, offset=32), "multiples of 64"),
    (rows(64, offset=4096), "outside the arena of tokens, which has 4096"),
    (rows(64, offset=2**62), "outside the arena"),
    (rows(64, offset=-64), "multiples of 64"),
    (rows(16, column_bytes=2, stride=128), "from byte 2"),
    (rows(16, column_bytes=128, stride=128), "from byte 128"),
    (rows(64, dtype=DType.F16, stride=128), "takes float32 rows at inputs"),
]


@pytest.mark.parametrize(("operand", "message"), BAD_OPERANDS)
def test_values_outside_the_arena_are_refused(operand: Operand, message: str) -> None:
    good = rows(operand[3])
    with pytest.raises(ValueError, match=message):
        program(add(operand, good, good))


def test_q8_values_have_one_layout_only() -> None:
    q8 = rows(64, dtype=DType.Q8)
    program(("quantize", 0, [rows(64)], [q8], [], []))
    for bad in (rows(64, dtype=DType.Q8, stride=256), rows(48, dtype=DType.Q8, stride=256)):
        with pytest.raises(ValueError, match="a q8 value has a width that is a multiple of 32"):
            program(("quantize", 0, [rows(bad[3])], [bad], [], []))


X, Q = rows(64), rows(64, dtype=DType.Q8)
BAD_INSTRUCTIONS: list[tuple[native.InstructionSpec, str]] = [
    (("nonsense", 0, [X], [X], [], []), "nonsense: there is no kernel of this name"),
    (("add", 0, [X], [X], [], []), "add: has 1 inputs where the kernel takes 2"),
    (("add", 0, [X, X], [], [], []), "add: has 0 outputs"),
    (("add", 0, [X, X], [X], [1], []), "add: has 1 ints where the kernel takes 0"),
    (("softcap", 0, [X], [X], [], []), "softcap: has 0 floats"),
    (("add", 0, [X, ones(64)], [X], [], []), r"float32 rows at inputs\[1\]"),
    (("rms_norm", 0, [X, NONE], [X], [], [0.0]), r"a vector at inputs\[1\]"),
    (("add", 0, [X, rows(32)], [X], [], []), "width of an input is 32 where 64"),
    (("rms_norm", 0, [X, ones(32)], [X], [], [0.0]), "width of an input is 32 where 64"),
    (("gather_rows", 2, [X], [X], [], []), "gives rows of kind logits"),
    (("embed", 0, [matrix(8, 32)], [X], [], [1.0]), "output's width is 64 where 32"),
    (("rope_angles", 0, [ones(16)], [X], [], [1.0]), "output's width is 64 where 32"),
    (("linear", 0, [X], [X], [0, 0], []), "number of segments is 0; 1 to 16"),
    (("linear", 0, [X], [X], [2**40, 0], []), "1 to 16"),
    (("linear", 0, [X, matrix(64, 64), NONE], [X], [2, 0], []), "has 3 inputs"),
    (("linear", 0, [X, matrix(64, 64), NONE], [X], [1, 2], []), "the mode is 2"),
    (("linear", 0, [X, matrix(64, 32), NONE], [X], [1, 0], []), "columns is 32 where 64"),
    (("linear", 0, [X, matrix(32, 64), NONE], [X], [1, 0], []), "output's width is 64 where 32"),
    (("linear", 0, [X, matrix(64, 64), ones(32)], [X], [1, 0], []), "bias's width is 32"),
    (("linear", 0, [Q, matrix(64, 64), NONE], [X], [1, 0], []), "take float32 rows"),
    (("linear", 0, [X, matrix(64, 64, "Q4_0"), NONE], [X], [1, 0], []), "all others q8 rows"),
    (("linear_gated", 0, [X, matrix(64, 64), matrix(32, 64)], [X], [0], []), "rows is 32"),
    (
        ("linear_gated_quantize", 0, [X, matrix(64, 64), matrix(64, 64)], [X], [0], []),
        r"q8 rows at outputs\[0\]",
    ),
    (("gated_activation", 0, [X, X], [X], [2], []), "activation is 2; 0 to 1"),
    (("head_rms_norm", 0, [X, ones(16)], [X], [4, 17], [0.0]), "heads is 64 where 68"),
    (("head_rms_norm", 0, [X, ones(8)], [X], [4, 16], [0.0]), "norm's width is 8"),
    (("rope", 0, [X, rows(32)], [X], [4, 16], []), "angles is 32; 2 to 16"),
    (("rope", 0, [X, rows(16)], [X], [-4, -16], []), "heads is -4"),
    (("write_pages", 0, [X, X, pages(2, 16), NONE], [], [0, 0], []), "heads is 64 where 32"),
    (
        ("write_pages", 0, [X, X, pages(4, 16), ones(32)], [], [16, 4], []),
        "offset's width is 32 where 64",
    ),
    (("write_pages", 0, [X, X, pages(), NONE], [], [16, 9], []), "turning columns is 9; 0 to 8"),
    (
        (
            "rope_write_pages",
            0,
            [X, rows(16), pages(), NONE, ones(8), NONE],
            [X],
            [1, 2, 16, 0],
            [0.0],
        ),
        "width of the heads is 64 where 80",
    ),
    (("attention", 0, [X, pages(2, 16)], [X], [4, 4, 16, 0], [1.0, 0.0]), "pages is 2 where 4"),
    (("attention", 0, [X, pages(3, 16)], [X], [4, 3, 16, 0], [1.0, 0.0]), "modulo that of key"),
    (("attention", 0, [X, pages(2, 16)], [X], [4, 2, 16, -1], [1.0, 0.0]), "window is -1"),
    (
        ("attention_quantize", 0, [X, pages(2, 16)], [Q], [4, 2, 16, 0], [1.0, 0.0]),
        "head size modulo 32 is 16 where 0",
    ),
]


@pytest.mark.parametrize(("instruction", "message"), BAD_INSTRUCTIONS)
def test_instructions_that_break_their_kernels_contract_are_refused(
    instruction: native.InstructionSpec, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        program(instruction)


def test_malformed_specs_are_refused() -> None:
    for bad in [(1, 0, 0), (9, 0, 0, 16, 0, 0, 64, None), (1, 3, 0, 16, 0, 0, 64, None)]:
        with pytest.raises(ValueError, match=r"operand (has 8 fields|kind)"):
            program(("softcap", 0, [bad], [X], [], [1.0]))  # type: ignore[list-item]
    with pytest.raises(ValueError, match="row kind 3"):
        program(("softcap", 3, [X], [X], [], [1.0]))
    with pytest.raises(ValueError, match="6 fields"):
        program(("softcap", 0, [X]))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="has no object"):
        program(("softcap", 0, [(*X[:7], np.ones(1, np.float32))], [X], [], [1.0]))


def test_vectors_are_float32_of_the_stated_width() -> None:
    def norm(w: object, width: int) -> native.InstructionSpec:
        operand = (OperandKind.VECTOR, 0, 0, width, 0, 0, 0, w)
        return ("rms_norm", 0, [X, operand], [X], [], [0.0])  # type: ignore[list-item]

    with pytest.raises(ValueError, match="of width 64 has 32 elements"):
        program(norm(np.ones(32, np.float32), 64))
    for wrong in (np.ones(64, np.float64), np.ones((64, 1), np.float32), None, "w"):
        with pytest.raises(TypeError, match="instruction 0: a field"):
            program(norm(wrong, 64))


def test_arena_shapes_out_of_range_are_refused() -> None:
    with pytest.raises(ValueError, match="multiple of 64"):
        program(row_bytes=(100, 0, 0))
    with pytest.raises(ValueError, match="max_rows is -1"):
        program(max_rows=(-1, 0, 0))
    with pytest.raises(MemoryError):
        program(row_bytes=(2**62, 0, 0), max_rows=(2**31 - 1, 0, 0))


def test_unknown_levels_are_refused() -> None:
    with pytest.raises(ValueError, match='level is "mmx"; this machine runs scalar'):
        native.Program(thread_pool(1), "mmx", [], (0, 0, 0), (0, 0, 0))


def test_views_are_of_float32_values_within_max_rows() -> None:
    p = program()
    with pytest.raises(ValueError, match="only float32 values"):
        p.view(Q, 1)
    with pytest.raises(ValueError, match="17 rows of tokens; at most 16"):
        p.view(X, 17)
    with pytest.raises(ValueError, match="not an arena value"):
        p.view(NONE, 1)
