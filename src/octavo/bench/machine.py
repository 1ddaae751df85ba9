"""The machine's own limits, measured by the native core: memory bandwidth and arithmetic rates."""

from __future__ import annotations

from typing import Literal

import msgspec

from octavo.kernels._native import ThreadPool, measure_arithmetic_rates, measure_read_rate

Effort = Literal["quick", "thorough"]

READ_BYTES = 256 << 20
"""More than any last-level cache that two cores share; what a small model's weights meet is
`cached_bytes_per_second`."""

CACHED_BYTES = 8 << 20


class MachineRates(msgspec.Struct, frozen=True, kw_only=True):
    """With `threads` threads at `isa_level`. A multiply-add is two operations.

    Memory is read from beyond the last-level cache, or from within it. Where bfloat16 has no
    products of its own its rate is that of float32; older reports lack it.
    """

    threads: int
    isa_level: str
    bytes_per_second: float
    cached_bytes_per_second: float
    int8_operations_per_second: float
    f32_operations_per_second: float
    bf16_operations_per_second: float = 0.0


def measure_machine(threads: int, isa_level: str, effort: Effort = "thorough") -> MachineRates:
    """Takes about a second when quick, ten when thorough. The best passes count.

    Many short passes, because whatever else runs on the machine takes from the memory's rate.
    """
    pool = ThreadPool(threads)
    passes = 15 if effort == "quick" else 100
    seconds = 0.01 if effort == "quick" else 0.03
    int8, f32, bf16 = measure_arithmetic_rates(pool, isa_level, seconds, passes)
    return MachineRates(
        threads=threads,
        isa_level=isa_level,
        bytes_per_second=measure_read_rate(pool, isa_level, READ_BYTES, passes),
        cached_bytes_per_second=measure_read_rate(pool, isa_level, CACHED_BYTES, 10 * passes),
        int8_operations_per_second=int8,
        f32_operations_per_second=f32,
        bf16_operations_per_second=bf16,
    )
