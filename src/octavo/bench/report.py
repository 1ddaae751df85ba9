"""What a benchmark found, as plain data: metrics with all their samples, and where it ran.

The JSON form is `report_to_json`'s; a report reads back equal. Knows no benchmark.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal

import msgspec

from octavo.bench.fingerprint import Fingerprint
from octavo.bench.machine import MachineRates
from octavo.bench.statistics import Summary, summarise
from octavo.errors import ConfigError

SCHEMA = "octavo-bench/1"
Better = Literal["higher", "lower"]
Setting = int | float | str | bool | None


class Metric(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One measured quantity. `samples` are all its runs, in order, in `unit`.

    `share` is the part of the machine's limit that the median reaches, if there is such a limit.
    """

    name: str
    unit: str
    better: Better
    samples: list[float]
    share: float | None = None

    @property
    def summary(self) -> Summary:
        return summarise(self.samples)


class Report(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`settings` is what was asked for. `results` has single figures under vLLM's names.

    `skipped` says what was asked for and not measured, and why.
    """

    kind: str
    created: str
    machine: Fingerprint
    model: str = ""
    settings: dict[str, Setting] = {}
    rates: MachineRates | None = None
    metrics: list[Metric] = []
    results: dict[str, float] = {}
    skipped: list[str] = []
    schema: str = SCHEMA


def now() -> str:
    """For `Report.created`."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def report_to_json(report: Report) -> bytes:
    """Indented, with the medians beside the samples for those who read with other tools."""
    fields = msgspec.to_builtins(report)
    fields["schema"] = report.schema
    for metric, shown in zip(report.metrics, fields.get("metrics", ()), strict=True):
        summary = metric.summary
        shown["median"], shown["mean"] = summary.median, summary.mean
        shown["p90"], shown["p99"] = summary.p90, summary.p99
    return msgspec.json.format(msgspec.json.encode(fields), indent=2) + b"\n"


def report_from_json(data: bytes, origin: str) -> Report:
    """Raises ConfigError, naming `origin`, for what is no report or one of another schema."""
    try:
        report = msgspec.json.decode(data, type=Report)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{origin} is no report of octavo bench: {error}") from None
    if report.schema != SCHEMA:
        raise ConfigError(f"{origin} has schema {report.schema!r}; {SCHEMA!r} is read")
    if any(not metric.samples for metric in report.metrics):
        raise ConfigError(f"{origin} has a metric without samples")
    return report
