"""Ops that compute nothing: each call is checked for shapes and written down as an instruction.

Knows no weights' formats and no memory. The outcome is an unfused `Program` over float32 values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NoReturn

from octavo.core.model_config import RopeConfig
from octavo.errors import RecordingError
from octavo.kernels import RowKind
from octavo.ops.interface import Activation, AttentionSpec, KeyOffset
from octavo.ops.program import (
    ACTIVATIONS,
    Columns,
    Constant,
    Instruction,
    Operand,
    Pages,
    Program,
    ValueInfo,
)
from octavo.ops.rope import inverse_frequencies
from octavo.weights.weight import Weight


class AbstractValue:
    """Stands for an activation that does not exist yet. `age` counts the instructions before it."""

    __slots__ = ("_maker", "age", "operand", "rows")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, maker: str, rows: RowKind, operand: Columns, age: int) -> None:
        self._maker = maker
        self.rows = rows
        self.operand = operand
        self.age = age

    @property
    def width(self) -> int:
        return self.operand.width

    def columns(self, start: int, stop: int) -> AbstractValue:
        if not 0 <= start < stop <= self.width:
            raise RecordingError(
                f"columns [{start}, {stop}) of the {self.width} columns that {self._maker} made"
            )
        part = Columns(self.operand.value, self.operand.start + start, stop - start)
        return AbstractValue(self._maker, self.rows, part, self.age)

    def _refuse(self, use: str) -> NoReturn:
        raise RecordingError(
            f"{use} of the value that {self._maker} made: a program is recorded before there are "
            "numbers, so a model must not depend on them"
        )

    def __bool__(self) -> bool:
        self._refuse("bool()")

    def __len__(self) -> int:
        self._refuse("len()")

    def __float__(self) -> float:
        self._refuse("float()")

    def __int__(self) -> int:
        self._refuse("int()")

    def __iter__(self) -> Iterator[AbstractValue]:
        self._refuse("iteration")

    def __eq__(self, other: object) -> bool:
        self._refuse("comparison")

    def __lt__(self, other: object) -> bool:
        self._refuse("comparison")

    __gt__ = __le__ = __ge__ = __lt__


class RecordingOps:
    """`Ops` of `AbstractValue`. Call a model with it once, then `finish` with what it returned."""

    def __init__(self) -> None:
        self._values: list[ValueInfo] = []
        self._instructions: list[Instruction] = []
        self._scopes: list[str] = []
        self._op = ""

    def finish(self, result: AbstractValue) -> Program:
        return Program(tuple(self._values), tuple(self._instructions), result.operand)

    @contextmanager
    def scope(self, name: str) -> Iterator[None]:
        self._scopes.append(name)
        try:
            yield
        finally:
            self._scopes.pop()

    def embed(self, table: Weight, *, scale: float = 1.0) -> AbstractValue:
        self._begin("embed")
        _, width = self._matrix(table)
        return self._new(RowKind.TOKENS, width, (table,), floats=(scale,))

    def rope_angles(self, rope: RopeConfig) -> AbstractValue:
        self._begin("rope_angles")
        frequencies = Constant(_rope_name(rope), inverse_frequencies(rope))
        return self._new(RowKind.TOKENS, rope.rotary_dim, (frequencies,), floats=(1.0,))

    def linear(
        self,
        x: AbstractValue,
        weights: Sequence[Weight],
        biases: Sequence[Weight | None] | None = None,
    ) -> AbstractValue:
        self._begin("linear", x)
        inputs: list[Operand] = [x.operand]
        width = 0
        for weight, bias in zip(weights, biases or [None] * len(weights), strict=True):
            num_rows, num_columns = self._matrix(weight)
            self._check(num_columns == x.width, f"{weight.name} {weight.shape} by {x.width}")
            if bias is not None:
                self._vector(bias, num_rows)
            inputs += [weight, bias]
            width += num_rows
        return self._new(x.rows, width, tuple(inputs), ints=(len(weights), 0))

    def gated_activation(
        self, gate: AbstractValue, up: AbstractValue, activation: Activation
    ) -> AbstractValue:
        self._begin("gated_activation", gate, up)
        self._same_shape(gate, up)
        ints = (ACTIVATIONS.index(activation),)
        return self._new(gate.rows, gate.width, (gate.operand, up.operand), ints=ints)

    def rms_norm(self, x: AbstractValue, weight: Weight, eps: float) -> AbstractValue:
        self._begin("rms_norm", x)
        self._vector(weight, x.width)
        return self._new(x.rows, x.width, (x.operand, weight), floats=(eps,))

    def head_rms_norm(self, x: AbstractValue, weight: Weight, eps: float) -> AbstractValue:
        self._begin("head_rms_norm", x)
        head_dim = weight.shape[-1]
        self._vector(weight, head_dim)
        heads = self._heads(x, head_dim)
        return self._update(x, (x.operand, weight), ints=(heads, head_dim), floats=(eps,))

    def rope(self, x: AbstractValue, angles: AbstractValue, head_dim: int) -> AbstractValue:
        self._begin("rope", x, angles)
        heads = self._heads(x, head_dim)
        self._check(angles.width <= head_dim, f"{angles.width} angles for heads of {head_dim}")
        return self._update(x, (x.operand, angles.operand), ints=(heads, head_dim))

    def write_pages(
        self,
        keys: AbstractValue,
        values: AbstractValue,
        layer: int,
        offset: KeyOffset | None = None,
    ) -> None:
        self._begin("write_pages", keys, values)
        self._same_shape(keys, values)
        vector, ints = None, (0, 0)
        if offset is not None:
            vector, ints = offset.vector, (offset.rotary_dim, offset.num_turning)
            self._vector(vector, keys.width)
            self._check(offset.num_turning <= offset.rotary_dim // 2, f"no halves: {offset}")
        inputs = (keys.operand, values.operand, Pages(layer), vector)
        self._append(keys.rows, inputs, (), ints=ints)

    def attention(self, queries: AbstractValue, layer: int, spec: AttentionSpec) -> AbstractValue:
        self._begin("attention", queries)
        width = spec.num_heads * spec.head_dim
        self._check(queries.width == width, f"queries of {queries.width} columns, not {width}")
        self._check(spec.num_heads % spec.num_kv_heads == 0, f"uneven heads: {spec}")
        ints = (spec.num_heads, spec.num_kv_heads, spec.head_dim, spec.window)
        floats = (spec.scale, spec.softcap)
        inputs = (queries.operand, Pages(layer))
        return self._new(queries.rows, width, inputs, ints=ints, floats=floats)

    def add(self, a: AbstractValue, b: AbstractValue) -> AbstractValue:
        self._begin("add", a, b)
        self._same_shape(a, b)
        return self._new(a.rows, a.width, (a.operand, b.operand))

    def softcap(self, x: AbstractValue, cap: float) -> AbstractValue:
        self._begin("softcap", x)
        return self._update(x, (x.operand,), floats=(cap,))

    def gather_rows(self, x: AbstractValue) -> AbstractValue:
        self._begin("gather_rows", x)
        self._check(x.rows is RowKind.TOKENS, f"rows of kind {x.rows.name}, not TOKENS")
        return self._new(RowKind.LOGITS, x.width, (x.operand,))

    def _begin(self, op: str, *arguments: AbstractValue) -> None:
        self._op = op
        for argument in arguments:
            for index in range(argument.age, len(self._instructions)):
                if self._instructions[index].writes(argument.operand):
                    self._fail(f"reads columns that instruction {index} has since overwritten")

    def _new(
        self,
        rows: RowKind,
        width: int,
        inputs: tuple[Operand, ...],
        ints: tuple[int, ...] = (),
        floats: tuple[float, ...] = (),
    ) -> AbstractValue:
        self._values.append(ValueInfo(rows, width))
        output = Columns(len(self._values) - 1, 0, width)
        self._append(rows, inputs, (output,), ints, floats)
        return self._made(rows, output)

    def _update(
        self,
        x: AbstractValue,
        inputs: tuple[Operand, ...],
        ints: tuple[int, ...] = (),
        floats: tuple[float, ...] = (),
    ) -> AbstractValue:
        self._append(x.rows, inputs, (x.operand,), ints, floats)
        return self._made(x.rows, x.operand)

    def _append(
        self,
        rows: RowKind,
        inputs: tuple[Operand, ...],
        outputs: tuple[Columns, ...],
        ints: tuple[int, ...] = (),
        floats: tuple[float, ...] = (),
    ) -> None:
        scope = ".".join(self._scopes)
        instruction = Instruction(self._op, scope, rows, inputs, outputs, ints, floats)
        self._instructions.append(instruction)

    def _made(self, rows: RowKind, operand: Columns) -> AbstractValue:
        maker = ".".join([*self._scopes, self._op])
        return AbstractValue(maker, rows, operand, len(self._instructions))

    def _matrix(self, weight: Weight) -> tuple[int, int]:
        self._check(weight.is_matrix, f"{weight.name} {weight.shape} is no matrix")
        return weight.shape[0], weight.shape[1]

    def _vector(self, weight: Weight, width: int) -> None:
        self._check(weight.shape == (width,), f"{weight.name} {weight.shape} for {width} columns")

    def _same_shape(self, a: AbstractValue, b: AbstractValue) -> None:
        same = a.rows is b.rows and a.width == b.width
        self._check(same, f"{a.rows.name} x {a.width} with {b.rows.name} x {b.width}")

    def _heads(self, x: AbstractValue, head_dim: int) -> int:
        self._check(x.width % head_dim == 0, f"{x.width} columns in heads of {head_dim}")
        return x.width // head_dim

    def _check(self, holds: bool, what: str) -> None:
        if not holds:
            self._fail(what)

    def _fail(self, what: str) -> NoReturn:
        raise RecordingError(f"{'.'.join(self._scopes) or 'model'}: {self._op}: {what}")


def _rope_name(rope: RopeConfig) -> str:
    scale = f",scale={rope.scale:g}" if rope.scale != 1.0 else ""
    factors = ",factors" if rope.factors else ""
    return f"frequencies(theta={rope.theta:g}{scale}{factors})"
