"""Latency targets: how they are written, and which answered requests keep them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from octavo.errors import ConfigError
from octavo.simulate.records import Finished

KINDS = ("ttft", "tpot", "e2e", "per_token")
FORMS = "KIND=SECONDS, separated by commas, with " + ", ".join(KINDS)


@dataclass(frozen=True, slots=True)
class Slo:
    """`seconds` by kind; all hold for `share` of the requests, or the target is missed.

    ttft: to the first token. tpot: per token after it. e2e: to the last. per_token: e2e over the
    tokens of the answer, so that waiting counts.
    """

    seconds: Mapping[str, float]
    share: float = 0.99


def parse_slo(text: str, share: float = 0.99) -> Slo:
    """ "ttft=0.5,tpot=0.05" -> seconds by kind. Raises ConfigError."""
    seconds: dict[str, float] = {}
    for part in text.split(","):
        kind, _, value = part.strip().partition("=")
        try:
            limit = float(value)
        except ValueError:
            limit = -1.0
        if kind not in KINDS or not 0 < limit < 1e9:
            raise ConfigError(f"--slo is {text!r}; {FORMS}, is allowed")
        seconds[kind] = limit
    if not 0 < share <= 1:
        raise ConfigError(f"--slo-percent is {100 * share:g}; above 0 and up to 100 is allowed")
    return Slo(seconds, share)


def keeps(finished: Finished, slo: Slo) -> dict[str, list[bool]]:
    """For each kind, and for "all" of them together, whether each request keeps it. An answer of
    one token keeps tpot."""
    times = {
        "ttft": list(finished.ttft),
        "tpot": _tpots(finished),
        "e2e": list(finished.latency),
        "per_token": finished.per_token(),
    }
    kept = {kind: [time <= limit for time in times[kind]] for kind, limit in slo.seconds.items()}
    return {**kept, "all": [all(each) for each in zip(*kept.values(), strict=True)]}


def _tpots(finished: Finished) -> Sequence[float]:
    return [
        (latency - ttft) / max(1, count - 1)
        for ttft, latency, count in zip(
            finished.ttft, finished.latency, finished.num_output_tokens, strict=True
        )
    ]
