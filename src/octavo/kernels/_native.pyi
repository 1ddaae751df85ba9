"""The native extension as Python sees it. Implemented in `native/bindings/module.cc`."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

F32 = npt.NDArray[np.float32]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
U8 = npt.NDArray[np.uint8]

# (kind, row_kind, dtype, width, arena_offset, column_bytes, row_stride, object)
# kind, row_kind and dtype are the numbers of include/octavo/program.h and types.h.
OperandSpec = tuple[
    int, int, int, int, int, int, int, PackedMatrix | F32 | tuple[KvCache, int] | None
]
# (kernel name, row_kind, inputs, outputs, ints, floats)
InstructionSpec = tuple[
    str, int, Sequence[OperandSpec], Sequence[OperandSpec], Sequence[int], Sequence[float]
]

def isa_levels() -> list[str]:
    """Instruction-set levels that this build holds and this processor runs, fastest first."""

def row_block(level: str) -> int:
    """Rows that the matrix kernels of `level` hold in registers."""

def activation_row_bytes(width: int) -> int:
    """Bytes per row (a multiple of 64) of a q8 arena value of `width` columns (a multiple of 32)."""

def dequantize(type_name: str, data: U8, count: int) -> F32:
    """`count` values of a GGUF tensor type ("F32", "F16", "BF16", "Q4_0", ... "Q6_K") as float32."""

class ThreadPool:
    """Worker threads that walk a program together. The caller is worker 0."""
    def __init__(self, num_threads: int) -> None: ...
    @property
    def num_threads(self) -> int: ...

class PackedMatrix:
    """A weight matrix [rows, columns] in the tile layout of the kernels. Owns its memory."""
    @staticmethod
    def pack(
        pool: ThreadPool,
        source_type: str,
        data: U8,
        rows: int,
        columns: int,
        target_format: str,
        row_order: I32 | None = None,
    ) -> PackedMatrix:
        """Pack a row-major GGUF tensor.

        `target_format` is `source_type` (kept without loss) or "F32", "F16", "BF16" (dequantised).
        Output row i is source row `row_order[i]`. Raises ValueError on sizes that do not fit.
        """
    def unpack(self) -> F32:
        """The values, exactly as the kernels see them, [rows, columns]."""
    @property
    def format(self) -> str: ...
    @property
    def shape(self) -> tuple[int, int]: ...
    @property
    def num_bytes(self) -> int: ...

class KvCache:
    """The pages of all layers. Memory is reserved, and taken from the system when first touched."""
    def __init__(
        self, num_pages: int, layers: Sequence[tuple[int, int]], dtype: str
    ) -> None:
        """`layers`: (num_kv_heads, head_dim) of each layer. `dtype`: "float32", "float16", "bfloat16"."""
    @property
    def num_bytes(self) -> int: ...
    def read_page(self, layer: int, page: int) -> F32:
        """[num_kv_heads, 2, head_dim * 16] as float32, for tests."""

class Step:
    """Binds the stable buffers of `runner/step.py` once. Holds references to them."""
    def __init__(
        self,
        token_ids: I32,
        positions: I32,
        token_sequences: I32,
        slots: I64,
        query_starts: I32,
        context_lengths: I32,
        page_tables: I32,
        logit_rows: I32,
    ) -> None: ...

class Program:
    """A recorded program bound to weights, pages, a thread pool and an arena of its own."""
    def __init__(
        self,
        pool: ThreadPool,
        level: str,
        instructions: Sequence[InstructionSpec],
        arena_row_bytes: tuple[int, int, int],
        max_rows: tuple[int, int, int],
    ) -> None: ...
    def run(self, step: Step, num_tokens: int, num_sequences: int, num_logit_rows: int) -> None:
        """One step, with the GIL released."""
    def run_until(
        self, step: Step, num_tokens: int, num_sequences: int, num_logit_rows: int, count: int
    ) -> None:
        """The first `count` instructions only (debugging)."""
    def profile(
        self, step: Step, num_tokens: int, num_sequences: int, num_logit_rows: int
    ) -> list[float]:
        """One step; seconds of each instruction."""
    def view(self, operand: OperandSpec, num_rows: int) -> F32:
        """[num_rows, width] view into the arena of an f32 value, valid until the next run."""

class SampleBuffers:
    """Parameters and results of the sampler, one entry per logit row, as arrays. See native/kernels/sampler.h."""
