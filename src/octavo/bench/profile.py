"""Who used the processor while a load ran, from what octavo's server counts. Knows no network.

The load generator is a process of its own and not part of any figure.
"""

from __future__ import annotations

import re

import msgspec

from octavo.errors import ConfigError

_COUNTER = re.compile(
    r"^octavo:(front|engine|engine_python)_cpu_seconds_total\{.*\} (\S+)$", re.MULTILINE
)


class ProcessorTime(msgspec.Struct, frozen=True):
    """Seconds of all threads: of the HTTP server's process, of the engine's, and the part of the
    engine's that its thread spent outside native code."""

    front: float
    engine: float
    engine_python: float

    def since(self, before: ProcessorTime) -> ProcessorTime:
        return ProcessorTime(
            self.front - before.front,
            self.engine - before.engine,
            self.engine_python - before.engine_python,
        )

    @property
    def overhead_share(self) -> float:
        """The part of all that is no computation: front end, engine's Python, messages between."""
        total = self.front + self.engine
        return (self.front + self.engine_python) / total if total > 0 else 0.0

    def results(self) -> dict[str, float]:
        return {
            "cpu_front_seconds": self.front,
            "cpu_engine_python_seconds": self.engine_python,
            "cpu_native_seconds": self.engine - self.engine_python,
            "cpu_overhead_percent": 100 * self.overhead_share,
        }


def parse_processor_time(metrics: str, origin: str) -> ProcessorTime:
    """From the text of /metrics. Raises ConfigError, naming `origin`, if it is another server's."""
    found = {name: float(value) for name, value in _COUNTER.findall(metrics)}
    if len(found) != len(ProcessorTime.__struct_fields__):
        raise ConfigError(
            f"--profile: {origin} does not count processor time, as octavo's server does"
        )
    return ProcessorTime(**found)
