"""Reports for tests, without measuring anything."""

from __future__ import annotations

from collections.abc import Sequence

from octavo.bench.fingerprint import Fingerprint
from octavo.bench.machine import MachineRates
from octavo.bench.report import Better, Metric, Report

MACHINE = Fingerprint(
    processor="Some CPU",
    num_cores=2,
    memory_bytes=1 << 34,
    isa_level="avx2",
    threads=2,
    system="Linux",
    python="3.11.9",
    octavo="0.1.0",
    commit="abc1234",
)
RATES = MachineRates(
    threads=2,
    isa_level="avx2",
    bytes_per_second=5e10,
    cached_bytes_per_second=1e11,
    int8_operations_per_second=1e12,
    f32_operations_per_second=2e11,
    bf16_operations_per_second=4e11,
)


def metric(samples: Sequence[float], better: Better = "higher", name: str = "decode") -> Metric:
    return Metric(name=name, unit="tokens/s", better=better, samples=list(samples))


def report(*metrics: Metric, kind: str = "latency") -> Report:
    return Report(
        kind=kind,
        created="2026-01-01T00:00:00+00:00",
        machine=MACHINE,
        model="m.gguf",
        settings={"dtype": "auto", "num_prompts": 3, "rate": None},
        rates=RATES,
        metrics=list(metrics),
        results={"duration": 1.5},
        skipped=["context 9: too long"],
    )
