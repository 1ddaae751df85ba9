"""The program: a flat list of instructions over numbered values, as plain data that prints itself.

What a kernel's operands and constants mean is written in kernels/native/KERNELS.md. Knows neither
models nor memory: addresses come from `ops.arena`, pointers from the executable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from octavo.kernels import DType, RowKind
from octavo.weights.weight import Weight


@dataclass(frozen=True, slots=True)
class ValueInfo:
    rows: RowKind
    width: int
    dtype: DType = DType.F32


@dataclass(frozen=True, slots=True)
class Columns:
    """Columns [start, start + width) of value number `value`."""

    value: int
    start: int
    width: int

    @property
    def stop(self) -> int:
        return self.start + self.width

    def overlaps(self, other: Columns) -> bool:
        same = self.value == other.value
        return same and self.start < other.stop and other.start < self.stop


@dataclass(frozen=True, slots=True)
class Constant:
    """A vector that the recorder computed. Equal names mean equal values."""

    name: str
    values: npt.NDArray[np.float32] = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Pages:
    """The key/value pages of one layer."""

    layer: int


Operand = Columns | Weight | Constant | Pages | None


@dataclass(frozen=True, slots=True)
class Instruction:
    """One call of one kernel. A value that is an input and an output, or that is only an output
    but was written before, is updated in place."""

    kernel: str
    scope: str
    rows: RowKind
    inputs: tuple[Operand, ...]
    outputs: tuple[Columns, ...]
    ints: tuple[int, ...] = ()
    floats: tuple[float, ...] = ()

    def columns(self) -> Iterable[Columns]:
        """Every arena operand, inputs first."""
        yield from (operand for operand in self.inputs if isinstance(operand, Columns))
        yield from self.outputs

    def touches(self, value: int) -> bool:
        return any(operand.value == value for operand in self.columns())

    def writes(self, columns: Columns) -> bool:
        return any(output.overlaps(columns) for output in self.outputs)

    def map_columns(self, change: Callable[[Columns], Columns]) -> Instruction:
        inputs = tuple(change(o) if isinstance(o, Columns) else o for o in self.inputs)
        return replace(self, inputs=inputs, outputs=tuple(change(o) for o in self.outputs))


@dataclass(frozen=True, slots=True)
class Program:
    """`result` is what the program computes: the logits, [logit rows, vocabulary]."""

    values: tuple[ValueInfo, ...]
    instructions: tuple[Instruction, ...]
    result: Columns

    @property
    def hidden(self) -> Columns | None:
        """The rows [tokens, K] that last norm and head take theirs from, which embeddings are made
        of. The arena keeps them until the next step."""
        for instruction in self.instructions:
            if instruction.kernel == "gather_rows" and isinstance(instruction.inputs[0], Columns):
                return instruction.inputs[0]
        return None

    def whole(self, value: int) -> Columns:
        return Columns(value, 0, self.values[value].width)

    def is_whole(self, columns: Columns) -> bool:
        return columns == self.whole(columns.value)

    def uses(self) -> dict[int, list[int]]:
        """For each value, the instructions that touch it, ascending. The result is used last."""
        uses: dict[int, list[int]] = {}
        for index, instruction in enumerate(self.instructions):
            for value in dict.fromkeys(operand.value for operand in instruction.columns()):
                uses.setdefault(value, []).append(index)
        uses.setdefault(self.result.value, []).append(len(self.instructions))
        return uses

    def renumbered(self) -> Program:
        """The same program with values numbered by first appearance and unused ones dropped."""
        numbers: dict[int, int] = {}
        for instruction in self.instructions:
            for operand in instruction.columns():
                numbers.setdefault(operand.value, len(numbers))

        def change(operand: Columns) -> Columns:
            return replace(operand, value=numbers[operand.value])

        return Program(
            values=tuple(self.values[value] for value in numbers),
            instructions=tuple(i.map_columns(change) for i in self.instructions),
            result=change(self.result),
        )

    def to_text(self, seconds: Sequence[float] | None = None) -> str:
        """One line per instruction, led by its microseconds when `seconds` are given."""
        scope_width = max((len(i.scope) for i in self.instructions), default=0)
        kernel_width = max((len(i.kernel) for i in self.instructions), default=0)
        lines = []
        for index, instruction in enumerate(self.instructions):
            time = "" if seconds is None else f"{seconds[index] * 1e6:9.1f} us "
            head = (
                f"{index:4} {instruction.scope:{scope_width}}  {instruction.kernel:{kernel_width}}"
            )
            lines.append(f"{time}{head}  {self._body(instruction)}".rstrip())
        lines.append(f"result {self._operand(self.result)}: {self._shape(self.result.value)}")
        return "\n".join(lines) + "\n"

    def _body(self, instruction: Instruction) -> str:
        outputs = ", ".join(
            f"{self._operand(o)} {self._shape(o.value)}" for o in instruction.outputs
        )
        inputs = ", ".join(self._operand(operand) for operand in instruction.inputs)
        return f"{outputs or '-'} <- {inputs or '-'}  {_constants(instruction)}".rstrip()

    def _operand(self, operand: Operand) -> str:
        match operand:
            case None:
                return "none"
            case Columns(value, start, _):
                whole = self.is_whole(operand)
                return f"v{value}" if whole else f"v{value}[{start}:{operand.stop}]"
            case Pages(layer):
                return f"pages.{layer}"
            case Constant(name):
                return name
            case Weight(name):
                return name.removesuffix(".weight")

    def _shape(self, value: int) -> str:
        info = self.values[value]
        return f"[{info.rows.name.lower()}, {info.width}] {info.dtype.name.lower()}"


INT_NAMES = {
    "attention": ("heads", "kv_heads", "dim", "window"),
    "attention_quantize": ("heads", "kv_heads", "dim", "window"),
    "gated_activation": ("activation",),
    "head_rms_norm": ("heads", "dim"),
    "linear": ("segments", "adds"),
    "linear_gated": ("activation",),
    "linear_gated_quantize": ("activation",),
    "rope": ("heads", "dim"),
    "rope_write_pages": ("heads", "kv_heads", "dim", "turning"),
    "write_pages": ("rotary", "turning"),
}
FLOAT_NAMES = {
    "attention": ("scale", "softcap"),
    "attention_quantize": ("scale", "softcap"),
    "embed": ("scale",),
    "head_rms_norm": ("eps",),
    "rms_norm": ("eps",),
    "rms_norm_add": ("eps",),
    "rms_norm_quantize": ("eps",),
    "rope_angles": ("scaling",),
    "rope_write_pages": ("eps",),
    "softcap": ("cap",),
}
ACTIVATIONS = ("silu", "gelu_tanh")


def _constants(instruction: Instruction) -> str:
    names = INT_NAMES.get(instruction.kernel, ())
    words = [f"{name}={value}" for name, value in zip(names, instruction.ints, strict=True)]
    if names == ("activation",):
        words = [ACTIVATIONS[instruction.ints[0]]]
    names = FLOAT_NAMES.get(instruction.kernel, ())
    words += [f"{name}={value:g}" for name, value in zip(names, instruction.floats, strict=True)]
    return " ".join(words)
