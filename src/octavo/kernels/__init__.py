"""The native core: the compiled extension `_native` and names for the numbers of its headers."""

from enum import IntEnum


class OperandKind(IntEnum):
    """What an operand of an instruction is (`OperandKind` of include/octavo/program.h)."""

    NONE = 0
    ARENA = 1
    MATRIX = 2
    VECTOR = 3
    KV = 4


class RowKind(IntEnum):
    """What the rows of a value count (`RowKind` of include/octavo/types.h)."""

    TOKENS = 0
    SEQUENCES = 1
    LOGITS = 2


class DType(IntEnum):
    """Element types (`DType` of include/octavo/types.h). Arena values are F32 or Q8."""

    F32 = 0
    F16 = 1
    BF16 = 2
    Q8 = 3
