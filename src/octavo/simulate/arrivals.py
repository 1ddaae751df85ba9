"""When requests arrive: processes written as short texts, drawn with a seed. Knows no request."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from octavo.errors import ConfigError

FORMS = "poisson, fixed, gamma:CV, or on_off:ON:OFF (mean seconds of each)"


@dataclass(frozen=True, slots=True)
class Renewal:
    """Independent gaps, gamma distributed. `variation` is their coefficient of variation: 0 is a
    metronome, 1 Poisson, more comes in bursts (BurstGPT and others fit 2 and more)."""

    variation: float

    def times(self, rate: float, source: random.Random) -> Iterator[float]:
        at = 0.0
        while True:
            yield at
            at += self._gap(source) / rate

    def _gap(self, source: random.Random) -> float:
        if self.variation == 0:
            return 1.0
        shape = self.variation**-2
        return source.gammavariate(shape, 1 / shape)


@dataclass(frozen=True, slots=True)
class OnOff:
    """Poisson arrivals that pause: on and off times are exponential, and the rate while on is
    higher by so much that the mean is kept (an interrupted Poisson process)."""

    on_seconds: float
    off_seconds: float

    def times(self, rate: float, source: random.Random) -> Iterator[float]:
        rate_on = rate * (self.on_seconds + self.off_seconds) / self.on_seconds
        at = 0.0
        end = source.expovariate(1 / self.on_seconds)
        while True:
            yield at
            at += source.expovariate(rate_on)
            while at > end:
                pause = source.expovariate(1 / self.off_seconds)
                at += pause
                end += pause + source.expovariate(1 / self.on_seconds)


Arrivals = Renewal | OnOff


def parse_arrivals(text: str, origin: str) -> Arrivals:
    """Raises ConfigError naming `origin`."""
    kind, *fields = text.split(":")
    try:
        made = _arrivals(kind, [float(field) for field in fields])
    except ValueError:
        made = None
    if made is None:
        raise ConfigError(f"{origin} is {text!r}; {FORMS} is allowed")
    return made


def _arrivals(kind: str, fields: list[float]) -> Arrivals | None:
    match kind, fields:
        case "poisson", []:
            return Renewal(1.0)
        case "fixed", []:
            return Renewal(0.0)
        case "gamma", [variation] if 0 < variation <= 100:
            return Renewal(variation)
        case "on_off", [on, off] if 0 < on < 1e9 and 0 < off < 1e9:
            return OnOff(on, off)
    return None
