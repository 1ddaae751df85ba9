"""The smallest number of replicas that keeps the targets. Knows no table and no model."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from octavo.errors import ConfigError
from octavo.simulate.cluster import Source
from octavo.simulate.report import backlog_share
from octavo.simulate.simulation import Run, Setup, simulate
from octavo.simulate.slo import Slo, keeps
from octavo.simulate.trace import mean_rate

NUM_PROBES = 1000
"""Requests that one replica is saturated with, to guess where to begin."""


MAX_BACKLOG = 0.02
"""More replicas are needed where the queue grows by a larger share of what arrives."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """`kept_share` of all requests keep all targets; the queue grows by `backlog_share` of what
    arrives. Enough is what keeps the targets for as long as one likes, not just for this trace."""

    num_replicas: int
    kept_share: float
    backlog_share: float
    is_enough: bool


@dataclass(frozen=True, slots=True)
class Found:
    """`run` is the one with the fewest replicas that are enough."""

    attempts: list[Attempt]
    run: Run


def search_replicas(
    setup: Setup,
    source: Source,
    slo: Slo,
    most: int,
    on_attempt: Callable[[Attempt], None] | None = None,
) -> Found:
    """Doubles from a guess until it is enough, halves until it is not, and bisects in between; more
    replicas are taken to be never worse. Raises ConfigError if `most` are not enough, or if nothing
    is: when there are as many replicas as open requests, each is alone."""
    attempts: list[Attempt] = []
    runs: dict[int, Run] = {}

    def is_enough(num_replicas: int) -> bool:
        run = simulate(setup.with_replicas(num_replicas), source)
        share = kept_share(run, slo)
        backlog = backlog_share(run)
        is_kept = share >= slo.share and backlog <= MAX_BACKLOG
        attempt = Attempt(num_replicas, share, backlog, is_kept)
        attempts.append(attempt)
        if attempt.is_enough:
            runs[num_replicas] = run
        if on_attempt is not None:
            on_attempt(attempt)
        if not attempt.is_enough and run.records.most_open <= num_replicas:
            raise ConfigError(
                f"--slo: even alone on a replica, only {share:.1%} of the requests keep the"
                f" targets; {slo.share:.1%} are wanted"
            )
        return attempt.is_enough

    least = bisect_least(is_enough, guess=min(most, guess(setup, source)), most=most)
    if least is None:
        raise ConfigError(
            f"--search-limit: {most} replicas keep the targets for"
            f" {attempts[-1].kept_share:.1%} of the requests, and {attempts[-1].backlog_share:.1%}"
            f" pile up; {slo.share:.1%} are wanted, and at most {MAX_BACKLOG:.1%}"
        )
    return Found(attempts, runs[least])


def bisect_least(is_enough: Callable[[int], bool], *, guess: int, most: int) -> int | None:
    """The least number from 1 to `most` for which the monotone question is true."""
    below = 0
    enough: int | None = None
    candidate, step = guess, max(1, guess // 8)
    while True:
        if is_enough(candidate):
            enough = candidate
        elif candidate >= most:
            return None
        else:
            below = candidate
        if enough is not None and enough - below <= 1:
            return enough
        if enough is None:
            candidate = min(most, candidate + step)
        elif below == 0:
            candidate = max(1, enough - step)
        else:
            candidate = (below + enough) // 2
        step *= 2


def kept_share(run: Run, slo: Slo) -> float:
    kept = keeps(run.records.all_finished(), slo)["all"]
    return sum(kept) / len(run.source.requests)


def guess(setup: Setup, source: Source) -> int:
    """How many replicas could just answer what arrives, by what one does when it never waits."""
    rate = mean_rate(list(source.requests))
    if rate == 0 or source.num_clients is not None:
        return 1
    probes = Source(source.requests[:NUM_PROBES], num_clients=setup.engine.max_num_seqs)
    run = simulate(setup.with_replicas(1), probes)
    capacity = len(run.records.all_finished()) / max(run.records.last_seconds, 1e-9)
    return max(1, math.ceil(rate / capacity)) if capacity else 1
