"""A whole simulation: what it is made of, and running it. Knows no command line and no report."""

from __future__ import annotations

from dataclasses import dataclass, replace

from octavo.core.sequence import PAGE_TOKENS
from octavo.errors import ConfigError
from octavo.kv.kv_manager import KvManager
from octavo.scheduler.config import SchedulerConfig
from octavo.scheduler.scheduler import Scheduler
from octavo.simulate.cluster import Cluster, OnFinished, Source
from octavo.simulate.records import Records
from octavo.simulate.replica import END, Replica
from octavo.simulate.routers import make_router
from octavo.simulate.step_load import StepTimes


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """Of each replica, under the names of the engine's options."""

    num_pages: int
    max_num_seqs: int = 256
    max_num_batched_tokens: int = 2048
    max_model_len: int = 8192
    enable_prefix_caching: bool = True

    def __post_init__(self) -> None:
        if self.num_pages < 1:
            raise ConfigError(f"--num-pages is {self.num_pages}; 1 or more is allowed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    times: StepTimes
    engine: EngineSettings
    num_replicas: int = 1
    router: str = "least_loaded"

    def with_replicas(self, num_replicas: int) -> Setup:
        return replace(self, num_replicas=num_replicas)


@dataclass(frozen=True, slots=True)
class Run:
    """What a simulation left behind."""

    setup: Setup
    source: Source
    records: Records
    replicas: list[Replica]


def simulate(setup: Setup, source: Source, on_finished: OnFinished | None = None) -> Run:
    """Raises ConfigError for settings that contradict each other, SimulationError if requests are
    never answered."""
    if setup.num_replicas < 1:
        raise ConfigError(f"--replicas is {setup.num_replicas}; 1 or more is allowed")
    if not source.requests:
        raise ConfigError("a simulation needs at least one request")
    records = Records()
    replicas = [
        Replica(make_scheduler(setup.engine), setup.times, records.gaps)
        for _ in range(setup.num_replicas)
    ]
    router = make_router(setup.router, setup.num_replicas)
    Cluster(replicas, router, records, setup.times.request_seconds).run(source, on_finished)
    return Run(setup, source, records, replicas)


def make_scheduler(settings: EngineSettings) -> Scheduler:
    """The real one, with the real page memory."""
    kv = KvManager(settings.num_pages, PAGE_TOKENS, settings.enable_prefix_caching)
    config = SchedulerConfig(
        max_num_seqs=settings.max_num_seqs,
        max_num_batched_tokens=settings.max_num_batched_tokens,
        max_model_len=settings.max_model_len,
        max_logit_rows=settings.max_num_batched_tokens,
        eos_token_ids=frozenset({END}),
    )
    return Scheduler(config, kv)
