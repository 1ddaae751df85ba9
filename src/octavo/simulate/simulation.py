"""A whole simulation: what it is made of, and running it. Knows no command line and no report."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from octavo.config.engine import EngineConfig
from octavo.config.server import ServerConfig
from octavo.config.tenants import Tenants, load_tenants
from octavo.core.page_groups import PageGroups
from octavo.core.sequence import PAGE_TOKENS
from octavo.errors import ConfigError
from octavo.kv.kv_manager import KvManager
from octavo.scheduler.admission.admission import Admission
from octavo.scheduler.admission.demand import AdmissionBounds
from octavo.scheduler.admission.queue_order import queue_order
from octavo.scheduler.config import SchedulerConfig
from octavo.scheduler.policies.registry import policy_factory
from octavo.scheduler.scheduler import Scheduler
from octavo.simulate.cluster import Cluster, OnFinished, Source
from octavo.simulate.door import Door
from octavo.simulate.records import Records
from octavo.simulate.replica import END, Replica
from octavo.simulate.routers import make_router
from octavo.simulate.step_times import StepTimes

DEFAULT_MAX_MODEL_LEN = 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """`engine` and `server` are the options of each replica, of which those count that concern
    scheduling; `page_windows` are those of `PageGroups`; `has_admission`: requests are refused as
    the server would."""

    times: StepTimes
    num_pages: int
    page_windows: tuple[int, ...] = (0,)
    engine: EngineConfig = field(default_factory=EngineConfig)
    server: ServerConfig = field(default_factory=ServerConfig)
    has_admission: bool = False
    num_replicas: int = 1
    router: str = "least_loaded"

    def __post_init__(self) -> None:
        for flag, value in (("--num-pages", self.num_pages), ("--replicas", self.num_replicas)):
            if value < 1:
                raise ConfigError(f"{flag} is {value}; 1 or more is allowed")
        widths = [window or math.inf for window in self.page_windows]
        if not widths or widths != sorted(widths, reverse=True) or min(widths) < 0:
            raise ConfigError(
                f"page_windows are {list(self.page_windows)}; of each group its window is allowed,"
                " 0 for full attention, the widest first"
            )

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
    if not source.requests:
        raise ConfigError("a simulation needs at least one request")
    tenants = load_tenants(setup.server)
    records = Records()
    replicas = [_make_replica(setup, tenants, records) for _ in range(setup.num_replicas)]
    router = make_router(setup.router, setup.num_replicas)
    cluster = Cluster(replicas, router, records, tenants, setup.times.request_seconds)
    cluster.run(source, on_finished)
    return Run(setup, source, records, replicas)


def _make_replica(setup: Setup, tenants: Tenants, records: Records) -> Replica:
    door = None
    if setup.has_admission:
        door = Door(Admission(tenants, _bounds(setup), queue_order(setup.engine)))
    return Replica(make_scheduler(setup), setup.times, records.gaps, door)


def make_scheduler(setup: Setup) -> Scheduler:
    """The real one, with the real page memory."""
    config = setup.engine
    groups = PageGroups(setup.page_windows, PAGE_TOKENS, config.max_num_batched_tokens)
    kv = KvManager(setup.num_pages, PAGE_TOKENS, config.enable_prefix_caching, groups=groups)
    limits = SchedulerConfig(
        max_num_seqs=config.max_num_seqs,
        max_num_batched_tokens=config.max_num_batched_tokens,
        max_model_len=config.max_model_len or DEFAULT_MAX_MODEL_LEN,
        max_logit_rows=config.max_num_batched_tokens,
        eos_token_ids=frozenset({END}),
        reserve_high_priority=config.reserve_high_priority,
        max_step_seconds=config.max_step_seconds or None,
    )
    return Scheduler(limits, kv, policy_factory(config))


def _bounds(setup: Setup) -> AdmissionBounds:
    num_slots, options = setup.engine.max_num_seqs, setup.server
    return AdmissionBounds(
        num_slots=num_slots,
        max_sequences=num_slots + options.num_queued_limit(num_slots),
        max_queued_tokens=options.max_num_queued_tokens,
        max_queue_seconds=options.max_queue_seconds,
    )
