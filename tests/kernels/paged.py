"""Sequences in key/value pages, and causal attention over them in float64: the oracle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from octavo.kernels import RowKind, _native
from tests.kernels.harness import (
    F32,
    F64,
    I64,
    NONE,
    PAGE_TOKENS,
    U8,
    OneKernel,
    StepArrays,
    pages,
    round_up,
)

DTYPES = ["float32", "float16", "bfloat16", "int16", "int8"]


GREATEST_CODE = {"int16": 4095, "int8": 127}


def coded(x: F32, size: F32, code: int) -> F32:
    """`x` rounded to codes, of which `code` stands for `size`."""
    held: F32 = np.rint(x * (np.float32(code) / size)) * (size / np.float32(code))
    return held


def rounded(x: F32, dtype: str) -> F32:
    """The float32 values that pages of `dtype` hold after `x`, [..., head_dim], was written."""
    if dtype == "float32":
        return x
    if dtype == "float16":
        return x.astype(np.float16).astype(np.float32)
    if dtype in GREATEST_CODE:
        return coded(x, np.abs(x).max(axis=-1, keepdims=True), GREATEST_CODE[dtype])
    bits = x.view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)


def hadamard(x: F32) -> F32:
    """The unnormalised transform of `x` [..., dim] in blocks of the greatest power of two in dim,
    with the kernel's order of adding."""
    half = 1
    while x.shape[-1] % (2 * half) == 0:
        pairs = x.reshape(*x.shape[:-1], -1, 2, half)
        first, second = pairs[..., 0, :], pairs[..., 1, :]
        x = np.stack([first + second, first - second], axis=-2).reshape(x.shape)
        half *= 2
    return x


def rounded_keys(keys: F32, dtype: str) -> F32:
    """As `rounded`; int8 keys are transformed before they are rounded, and back here. The scale of
    int16 keys comes from their length."""
    if dtype == "int16":
        return coded(keys, np.linalg.norm(keys, axis=-1, keepdims=True), 32767)
    if dtype != "int8":
        return rounded(keys, dtype)
    dim = keys.shape[-1]
    return hadamard(rounded(hadamard(keys), dtype)) / np.float32(dim & -dim)


@dataclass(frozen=True)
class Shape:
    """Of one attention layer."""

    num_heads: int = 6
    num_kv_heads: int = 2
    head_dim: int = 32
    window: int = 0
    softcap: float = 0.0
    dtype: str = "float32"

    @property
    def scale(self) -> float:
        return float(np.float32(self.head_dim**-0.5))


@dataclass(frozen=True)
class Chunk:
    """Rows of one sequence in a step: positions [start, start + num_tokens)."""

    sequence: int
    start: int
    num_tokens: int


class Contexts:
    """Random keys, values and queries of some sequences; the first two also in pages.

    Pages lie in random order among unused ones; every slot that holds no token is NaN.
    """

    def __init__(self, shape: Shape, lengths: Sequence[int], seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.shape = shape
        sizes = (shape.num_kv_heads, shape.head_dim)
        self.keys = [rng.standard_normal((n, *sizes), np.float32) for n in lengths]
        self.values = [rng.standard_normal((n, *sizes), np.float32) for n in lengths]
        self.queries = [
            rng.standard_normal((n, shape.num_heads, shape.head_dim), np.float32) for n in lengths
        ]
        num_pages = [round_up(n, PAGE_TOKENS) // PAGE_TOKENS for n in lengths]
        ids = rng.permutation(sum(num_pages) + 3).astype(np.int32)
        self.tables = np.zeros((len(lengths), max(num_pages)), np.int32)
        self.tables[:] = ids[-1]  # an unused page
        for s, n in enumerate(num_pages):
            self.tables[s, :n] = ids[sum(num_pages[:s]) :][:n]
        self.cache_pages = len(ids)
        self._fill_pages()

    def _fill_pages(self) -> None:
        sizes = (self.shape.num_kv_heads, self.shape.head_dim)
        self.cache = _native.KvCache(self.cache_pages, [sizes], self.shape.dtype)
        every_slot = np.arange(self.cache_pages * PAGE_TOKENS)
        nothing = np.full((len(every_slot), *sizes), np.nan, np.float32)
        self._write(every_slot, nothing, nothing)
        for s, keys in enumerate(self.keys):
            self._write(self.slots(s, np.arange(len(keys))), keys, self.values[s])

    def move_pages(self, order: I64) -> None:
        """Page i becomes page order[i], with its contents."""
        self.tables = order.astype(np.int32)[self.tables]
        self._fill_pages()

    def poison(self, sequence: int, position: int, number: float) -> None:
        """Overwrites the key and value of one token, in its page only."""
        bad = np.full((1, self.shape.num_kv_heads, self.shape.head_dim), number, np.float32)
        self._write(self.slots(sequence, np.array([position])), bad, bad)

    def slots(self, sequence: int, positions: I64) -> I64:
        page = self.tables[sequence, positions // PAGE_TOKENS].astype(np.int64)
        slots: I64 = page * PAGE_TOKENS + positions % PAGE_TOKENS
        return slots

    def _write(self, slots: I64, k: F32, v: F32) -> None:
        kernel = OneKernel(_native.isa_levels()[0])
        flat = (len(slots), -1)
        operands = [
            kernel.value(k.reshape(flat)),
            kernel.value(v.reshape(flat)),
            pages(self.cache),
            NONE,
        ]
        kernel.run("write_pages", operands, [], [0, 0], step=StepArrays(len(slots), slots=slots))

    def step(self, chunks: Sequence[Chunk]) -> StepArrays:
        lengths = [c.num_tokens for c in chunks]
        positions = [np.arange(c.start, c.start + c.num_tokens) for c in chunks]
        return StepArrays(
            sum(lengths),
            num_sequences=len(chunks),
            positions=np.concatenate(positions).astype(np.int32),
            query_starts=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32),
            page_tables=np.ascontiguousarray(self.tables[[c.sequence for c in chunks]]),
        )

    def attend(self, chunks: Sequence[Chunk], level: str, num_threads: int = 1) -> list[F32]:
        """What the kernel gives for these rows: [num_tokens, heads * head_dim] of each chunk."""
        kernel, inputs, step = self._prepared(chunks, level, num_threads)
        out = kernel.output(self.shape.num_heads * self.shape.head_dim)
        kernel.run("attention", inputs, [out], self._ints(), self._floats(), step=step)
        result = kernel.read(out, step.num_tokens)
        return np.split(result, np.cumsum([c.num_tokens for c in chunks])[:-1])

    def attend_quantized(self, chunks: Sequence[Chunk], level: str, *, is_fused: bool) -> U8:
        """The bytes of the int8 rows, made by one kernel or by two."""
        kernel, inputs, step = self._prepared(chunks, level, num_threads=2)
        width = self.shape.num_heads * self.shape.head_dim
        out, ints, floats = kernel.q8(width), self._ints(), self._floats()
        if is_fused:
            kernel.run("attention_quantize", inputs, [out], ints, floats, step=step)
        else:
            between = kernel.output(width)
            kernel.before.append(("attention", RowKind.TOKENS, inputs, [between], ints, floats))
            kernel.run("quantize", [between], [out], step=step)
        return kernel.read_bytes(out, step.num_tokens)

    def _prepared(
        self, chunks: Sequence[Chunk], level: str, num_threads: int
    ) -> tuple[OneKernel, list[_native.OperandSpec], StepArrays]:
        step = self.step(chunks)
        rows = [self.queries[c.sequence][c.start : c.start + c.num_tokens] for c in chunks]
        kernel = OneKernel(level, num_threads)
        q = kernel.value(np.concatenate(rows).reshape(step.num_tokens, -1))
        return kernel, [q, pages(self.cache)], step

    def _ints(self) -> list[int]:
        shape = self.shape
        return [shape.num_heads, shape.num_kv_heads, shape.head_dim, shape.window]

    def _floats(self) -> list[float]:
        return [self.shape.scale, self.shape.softcap]

    def expected(self, sequence: int, position: int) -> F64:
        """[heads * head_dim] of one row, the plain formula."""
        shape = self.shape
        first = max(0, position - shape.window + 1) if shape.window else 0
        group = shape.num_heads // shape.num_kv_heads
        k = rounded_keys(self.keys[sequence][first : position + 1], shape.dtype)
        v = rounded(self.values[sequence][first : position + 1], shape.dtype)
        k, v = (np.repeat(x, group, axis=1) for x in (k, v))
        q = self.queries[sequence][position].astype(np.float64)
        scores = np.einsum("hd,thd->ht", q, k) * shape.scale
        if shape.softcap:
            scores = shape.softcap * np.tanh(scores / shape.softcap)
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        weights /= weights.sum(axis=1, keepdims=True)
        result: F64 = np.einsum("ht,thd->hd", weights, v).reshape(-1)
        return result
