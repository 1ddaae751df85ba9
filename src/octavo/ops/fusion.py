"""Local fusions: each pass is a plain function from a program to an equal, shorter program.

A pass looks at a few neighbouring instructions and at who else touches their values, nothing more.
Knows no weights' formats but what it is told, and no memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from octavo.ops.program import Columns, Instruction, Operand, Pages, Program
from octavo.weights.weight import Weight

IsInteger = Callable[[Weight], bool]
"""Whether a matrix is held in an integer format, whose kernels take int8 activations."""
QUANTIZE_GROUP = 32
"""Columns that share one activation scale in the native core."""
Uses = dict[int, list[int]]
"""For each value, the instructions that touch it (`Program.uses`)."""


def fuse_before_lowering(program: Program, is_integer: IsInteger) -> Program:
    program = fuse_gated(program, is_integer)
    program = fuse_residual_adds(program)
    return fuse_rope_and_pages(program)


def fuse_gated(program: Program, is_integer: IsInteger) -> Program:
    """gate = linear(x), up = linear(x), gated_activation(gate, up) -> linear_gated(x)."""
    uses = program.uses()
    removed: set[int] = set()
    changed: dict[int, Instruction] = {}
    for index, instruction in enumerate(program.instructions):
        if instruction.kernel != "gated_activation":
            continue
        gate, up = (_sole_producer(program, uses, o, index) for o in instruction.inputs)
        if gate is None or up is None:
            continue
        fused = _gated(program, gate, up, index, is_integer)
        if fused is not None:
            removed |= {gate, up}
            changed[index] = fused
    return _rebuilt(program, removed, changed)


def _gated(
    program: Program, gate: int, up: int, index: int, is_integer: IsInteger
) -> Instruction | None:
    a, b = program.instructions[gate], program.instructions[up]
    if not (_is_plain_linear(a) and _is_plain_linear(b)) or a.inputs[0] != b.inputs[0]:
        return None
    x, gate_weight, up_weight = a.inputs[0], a.inputs[1], b.inputs[1]
    assert isinstance(x, Columns)
    assert isinstance(gate_weight, Weight)
    assert isinstance(up_weight, Weight)
    if is_integer(gate_weight) != is_integer(up_weight):
        return None
    if _is_written(program, x, min(gate, up), index):
        return None
    inputs = (x, gate_weight, up_weight)
    return replace(program.instructions[index], kernel="linear_gated", inputs=inputs)


def _is_plain_linear(instruction: Instruction) -> bool:
    """One segment, no bias, stored."""
    return (
        instruction.kernel == "linear"
        and instruction.ints == (1, 0)
        and instruction.inputs[2] is None
    )


def fuse_residual_adds(program: Program) -> Program:
    """add(x, linear(h)) -> linear that adds to x; add(x, rms_norm(h)) -> rms_norm_add to x.

    x must not be read later; every later use of the sum becomes a use of x.
    """
    uses = program.uses()
    removed: set[int] = set()
    changed: dict[int, Instruction] = {}
    stands_for: dict[int, int] = {}
    for index, instruction in enumerate(program.instructions):
        if instruction.kernel != "add":
            continue
        left, right = instruction.inputs
        for kept, folded in ((left, right), (right, left)):
            producer = _sole_producer(program, uses, folded, index)
            fused = _added_in_place(program, uses, kept, producer, index)
            if producer is not None and fused is not None:
                removed.add(producer)
                changed[index] = fused
                stands_for[instruction.outputs[0].value] = fused.outputs[0].value
                break
    return _renamed(_rebuilt(program, removed, changed), stands_for)


def _added_in_place(
    program: Program, uses: Uses, kept: Operand, producer: int | None, index: int
) -> Instruction | None:
    """The producer, moved to `index` and adding to `kept`, if nobody misses the old `kept`."""
    if producer is None or not isinstance(kept, Columns) or not program.is_whole(kept):
        return None
    source = program.instructions[producer]
    is_read_later = uses[kept.value][-1] != index
    if is_read_later or any(_is_written(program, o, producer, index) for o in source.inputs):
        return None
    match source.kernel:
        case "linear":
            return replace(source, outputs=(kept,), ints=(source.ints[0], 1))
        case "rms_norm":
            return replace(source, kernel="rms_norm_add", outputs=(kept,))
        case _:
            return None


def fuse_rope_and_pages(program: Program) -> Program:
    """Head norms, rope and page write of one q|k|v value -> rope_write_pages."""
    uses = program.uses()
    removed: set[int] = set()
    changed: dict[int, Instruction] = {}
    for index, instruction in enumerate(program.instructions):
        if instruction.kernel != "write_pages":
            continue
        keys = instruction.inputs[0]
        assert isinstance(keys, Columns)
        between = [i for i in uses[keys.value][1:] if i < index]
        fused = _rope_write_pages(program, between, index)
        if fused is not None:
            removed.update(between)
            changed[index] = fused
    return _rebuilt(program, removed, changed)


def _rope_write_pages(program: Program, between: list[int], index: int) -> Instruction | None:
    """`between` are the instructions that touch the q|k|v value before its page write."""
    write = program.instructions[index]
    keys, values, pages, offset = write.inputs
    assert isinstance(keys, Columns)
    assert isinstance(values, Columns)
    queries = Columns(keys.value, 0, keys.start)
    steps = {(i.kernel, i.outputs): i for i in (program.instructions[n] for n in between)}
    rope_q = steps.pop(("rope", (queries,)), None)
    rope_k = steps.pop(("rope", (keys,)), None)
    norm_q = steps.pop(("head_rms_norm", (queries,)), None)
    norm_k = steps.pop(("head_rms_norm", (keys,)), None)
    if rope_q is None or rope_k is None or steps or not _is_qkv(program, keys, values):
        return None
    norms = [norm for norm in (norm_q, norm_k) if norm is not None]
    if rope_q.inputs[1] != rope_k.inputs[1] or len({norm.floats for norm in norms}) > 1:
        return None
    head_dim = rope_q.ints[1]
    whole = program.whole(keys.value)
    return Instruction(
        kernel="rope_write_pages",
        scope=write.scope,
        rows=write.rows,
        inputs=(whole, rope_q.inputs[1], pages, _norm_weight(norm_q), _norm_weight(norm_k), offset),
        outputs=(whole,),
        ints=(queries.width // head_dim, keys.width // head_dim, head_dim, write.ints[1]),
        floats=norms[0].floats if norms else (0.0,),
    )


def _norm_weight(norm: Instruction | None) -> Operand:
    return None if norm is None else norm.inputs[1]


def _is_qkv(program: Program, keys: Columns, values: Columns) -> bool:
    """Whether the value is queries, then these keys, then these values, and nothing else."""
    follows = values.value == keys.value and values.start == keys.stop
    return follows and values.stop == program.values[keys.value].width


QUANTIZING = {
    "attention": "attention_quantize",
    "linear_gated": "linear_gated_quantize",
    "rms_norm": "rms_norm_quantize",
}
"""Kernels that have a twin whose result is quantised."""


def fuse_quantize(program: Program) -> Program:
    """quantize(rms_norm(x)) -> rms_norm_quantize(x), and so on. Runs after lowering."""
    uses = program.uses()
    removed: set[int] = set()
    changed: dict[int, Instruction] = {}
    for index, instruction in enumerate(program.instructions):
        if instruction.kernel != "quantize":
            continue
        producer = _sole_producer(program, uses, instruction.inputs[0], index)
        source = None if producer is None else program.instructions[producer]
        if producer is None or source is None or not _quantizes(source):
            continue
        if not any(_is_written(program, o, producer, index) for o in source.inputs):
            removed.add(producer)
            kernel = QUANTIZING[source.kernel]
            changed[index] = replace(source, kernel=kernel, outputs=instruction.outputs)
    return _rebuilt(program, removed, changed)


def _quantizes(instruction: Instruction) -> bool:
    """Whether its kernel has such a twin for it: a head must be whole groups."""
    if instruction.kernel == "attention" and instruction.ints[2] % QUANTIZE_GROUP:
        return False
    return instruction.kernel in QUANTIZING


def _sole_producer(program: Program, uses: Uses, operand: Operand, user: int) -> int | None:
    """The instruction that made all of `operand`'s value, if nobody but `user` touches it then."""
    if not isinstance(operand, Columns) or not program.is_whole(operand):
        return None
    touching = uses[operand.value]
    return touching[0] if len(touching) == 2 and touching[1] == user else None


def _is_written(program: Program, operand: Operand, after: int, before: int) -> bool:
    """Whether an instruction strictly between the two changes the operand."""
    between = program.instructions[after + 1 : before]
    if isinstance(operand, Pages):
        return any(operand in instruction.inputs for instruction in between)
    return isinstance(operand, Columns) and any(i.writes(operand) for i in between)


def _rebuilt(program: Program, removed: set[int], changed: dict[int, Instruction]) -> Program:
    instructions = (
        changed.get(index, instruction)
        for index, instruction in enumerate(program.instructions)
        if index not in removed
    )
    return replace(program, instructions=tuple(instructions))


def _renamed(program: Program, stands_for: dict[int, int]) -> Program:
    """Values replaced by those that they live on in; chains are followed to their end."""

    def change(operand: Columns) -> Columns:
        value = operand.value
        while value in stands_for:
            value = stands_for[value]
        return replace(operand, value=value)

    instructions = tuple(i.map_columns(change) for i in program.instructions)
    return replace(program, instructions=instructions, result=change(program.result))
