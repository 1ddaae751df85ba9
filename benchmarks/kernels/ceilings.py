"""The machine's rates that the kernels' benchmarks hold their own against. Knows no kernel."""

from __future__ import annotations

from collections.abc import Iterable

from octavo.bench.machine import CACHED_BYTES, MachineRates, measure_machine
from octavo.entrypoints.cli.bench_output import rates_line


def measured(levels: Iterable[str], threads: Iterable[int]) -> dict[tuple[str, int], MachineRates]:
    """Of each level and number of threads, printed, too."""
    counts = list(threads)
    found = {
        (level, count): measure_machine(count, level, "quick")
        for level in levels
        for count in counts
    }
    for (level, count), rates in found.items():
        print(f"{level}, {count} threads, {rates_line(rates)}", flush=True)
    return found


def read_rate(rates: MachineRates, num_bytes: float) -> float:
    """Bytes per second at which so many are read again and again: from the caches if they fit."""
    cached = num_bytes <= CACHED_BYTES
    return rates.cached_bytes_per_second if cached else rates.bytes_per_second
