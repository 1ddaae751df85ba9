"""The native extension as Python sees it. Implemented in `native/bindings/module.cc`.

The names of array and tuple types are for annotations: they exist in this stub only.
"""

from collections.abc import Sequence
from mmap import mmap

import numpy as np
import numpy.typing as npt

F32 = npt.NDArray[np.float32]
I32 = npt.NDArray[np.int32]
U32 = npt.NDArray[np.uint32]
I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]
U8 = npt.NDArray[np.uint8]

# One operand: kind, row_kind, dtype, width, arena_offset, column_bytes, row_stride, object, as in
# `Operand` of include/octavo/program.h; the first three are numbers of `octavo.kernels`' enums.
# Fields that a kind does not use are ignored: only arena values have places and strides, and of
# the others only vectors have a width, their length.
OperandSpec = tuple[
    int, int, int, int, int, int, int, PackedMatrix | F32 | tuple[KvCache, int] | None
]
# One instruction of KERNELS.md: kernel name, row kind, inputs, outputs, ints, floats.
InstructionSpec = tuple[
    str, int, Sequence[OperandSpec], Sequence[OperandSpec], Sequence[int], Sequence[float]
]

def isa_levels() -> list[str]:
    """Instruction-set levels that this build holds and this processor runs, fastest first."""

def row_block(level: str) -> int:
    """Rows that the matrix kernels of `level` hold in registers."""

def activation_row_bytes(width: int) -> int:
    """Bytes per row, a multiple of 64, of a q8 arena value. `width` is a multiple of 32."""

def dequantize(type_name: str, data: U8, count: int) -> F32:
    """`count` values of a GGUF tensor type ("F32", "F16", "BF16", "Q4_0", ... "Q6_K").

    Raises ValueError unless `data` holds exactly so many.
    """

def trim_memory() -> None:
    """Give what has been freed back to the system, where the C library can (glibc's malloc_trim).
    Takes milliseconds."""

def read_strings(
    buffer: mmap | bytes, position: int, count: int, max_bytes: int
) -> tuple[bytes, bytes, int]:
    """At most `count` strings from `position` on, as `core.packed_texts.PackedTexts` takes them
    (data, starts), and the position behind the last of them.

    Each is a 64-bit little-endian length and that many bytes of UTF-8, as in GGUF. Ends early
    before a string that has more than `max_bytes`, passes the buffer's end, or is no UTF-8.
    """

def measure_read_rate(pool: ThreadPool, level: str, num_bytes: int, passes: int) -> float:
    """Bytes per second that the pool's threads read together: the best of `passes`."""

def measure_arithmetic_rates(
    pool: ThreadPool, level: str, seconds: float, passes: int
) -> tuple[float, float, float]:
    """int8, float32 and bfloat16 operations per second of all threads; a multiply-add counts two.

    The best of `passes` of about `seconds` each. Where a level widens bfloat16 its rate is float32's.
    """

class ThreadPool:
    """Worker threads that walk a program together. The caller is worker 0."""
    def __init__(self, num_threads: int) -> None: ...
    @property
    def num_threads(self) -> int: ...

class WeightMemory:
    """Where packed matrices lie side by side, in mappings of at least `chunk_bytes`, which are
    taken from the system as they are filled. What is left of one when the next matrix does not fit
    is half a huge page on average, so a chunk should hold all that is expected."""
    def __init__(self, chunk_bytes: int) -> None: ...

class PackedMatrix:
    """A weight matrix [rows, columns] in the tile layout of the kernels. Holds its memory."""
    @staticmethod
    def pack(
        pool: ThreadPool,
        source_type: str,
        data: U8,
        rows: int,
        columns: int,
        target_format: str,
        row_order: I32 | None = None,
        memory: WeightMemory | None = None,
        level: str | None = None,
    ) -> PackedMatrix:
        """Pack a row-major GGUF tensor.

        `target_format` is `source_type` (kept without loss) or "F32", "F16", "BF16" (dequantised),
        or, for a float source, "Q8_0", "Q4_0", "Q4_1" or "Q4_K" (rounded).
        Output row i is source row `row_order[i]`. Without `memory` the matrix gets a mapping of
        its own. `level` rounds, the fastest if not given; every one makes the same bits. Raises
        ValueError on sizes that do not fit.
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
        self,
        num_pages: int,
        layers: Sequence[tuple[int, int]],
        dtype: str,
        places: Sequence[tuple[int, int]] | None = None,
    ) -> None:
        """`layers` has (num_kv_heads, head_dim) of each. `dtype`: "float32", "float16",
        "bfloat16", "int16" or "int8" (these with one float scale per token and head, for keys and
        for values). `places` are (group, shelf): of equal shelves one page holds only one layer.
        By default all layers are of group 0.

        Raises ValueError on counts out of range and on two layers in one place, MemoryError when
        there is no such address space.
        """
    @property
    def num_bytes(self) -> int: ...
    def read_page(self, layer: int, page: int) -> F32:
        """[num_kv_heads, 2, head_dim * 16] as float32, for tests, with scales applied. Int8
        keys are transformed, as they are in the page (native kernels/hadamard.h)."""
    @property
    def page_bytes(self) -> int:
        """Of one page on all shelves."""
    # The content of a page as it lies in memory, of all shelves, bit for bit. Buffers have
    # `page_bytes` bytes. Raises ValueError if not, or if there is no such page.
    def copy_page(self, source: int, target: int) -> None: ...
    def save_page(self, page: int, out: U8) -> None: ...
    def load_page(self, page: int, data: U8) -> None: ...

class Step:
    """Binds the stable buffers of `runner/step.py` once. Holds references to them. `slots` is
    [tokens, page groups], `page_tables` [sequences, entries].

    Raises TypeError for another dtype, shape or layout: a silent copy would miss later writes.
    """
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
    ) -> None:
        """Keeps the pool and the operands' objects alive. The tuples have an entry per row kind.

        Raises ValueError naming the kernel and what does not fit its signature.
        """
    def run(self, step: Step, num_tokens: int, num_sequences: int, num_logit_rows: int) -> None:
        """One step, with the GIL released.

        Raises ValueError when the counts exceed max_rows or what the step's buffers hold.
        """
    def run_until(
        self, step: Step, num_tokens: int, num_sequences: int, num_logit_rows: int, count: int
    ) -> None:
        """The first `count` instructions only (debugging)."""
    def profile(
        self, step: Step, num_tokens: int, num_sequences: int, num_logit_rows: int
    ) -> list[float]:
        """One step; seconds of each instruction."""
    def view(self, operand: OperandSpec, num_rows: int) -> F32:
        """[num_rows, width] view into the arena of an f32 value, good until the next run.

        `num_rows` must be the rows of that kind of the step that ran.
        """

SAMPLE_ROW_FORMAT: str
"""`struct` format of one `SampleRow` of runtime/sampler.h, fields in that order."""

FILTER_ROW_FORMAT: str
"""`struct` format of one `FilterRow` of runtime/filter_row.h, fields in that order."""

class Filters:
    """What some rows of one call ask for beyond their SampleRow: FilterRows, and the ids in whose
    ranges they point. `surprises`, set by `Sampler.sample`: of each, -log2 of the probability that
    the drawn token had among those kept; 0 where nothing was drawn by these filters."""
    def __init__(self, rows: bytes, ids: I32) -> None: ...
    surprises: list[float]

class Sampler:
    """Draws and scores tokens. The result for a row depends on the row and its parameters only."""
    def __init__(self, pool: ThreadPool, level: str, vocab_size: int) -> None: ...
    def sample(
        self,
        logits: F32,
        rows: bytes,
        history: I32,
        edit_ids: I32,
        edit_values: F32,
        masks: U32,
        filters: Filters | None = None,
    ) -> tuple[I32, I32, F64, I32, F64, int]:
        """One token per SampleRow in `rows`, with the GIL released. `logits` is [., vocab_size],
        `masks` [., ceil(vocab_size / 32)]: bit i % 32 of word i / 32 allows token i in the rows
        that name this mask.

        Returns token ids, ranks and log probabilities, each [rows]; the most probable ids and their
        log probabilities, [rows, largest num_top], -1 and -inf where there is none; and the number
        of rows that had no logit above -inf, whose token is 0. Ranks and log probabilities are 0
        where num_top is -1. A row whose target is -2 chooses nothing: its num_top best, at least
        one, are scored after bias and penalties. Raises ValueError when a row points outside the
        other arrays.
        """
