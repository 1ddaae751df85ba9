"""What each policy is for, shown in virtual time with the real scheduler: orders of magnitude.

The machine does 2,000 tokens a second in steps of 64, for eight sequences at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import mean

from octavo.bench.lengths import Fixed
from octavo.bench.statistics import percentile
from octavo.config.server import ServerConfig
from octavo.simulate.records import Finished
from octavo.simulate.simulation import Run
from octavo.simulate.synthetic import Recipe, make_trace
from octavo.simulate.trace import TraceRequest
from tests.simulate.machines import LinearTimes, engine, request, run_of

TIMES = LinearTimes(fixed=0.002, per_token=0.0005)


def run_with(policy: str, requests: Sequence[TraceRequest]) -> Run:
    return run_of(requests, engine(scheduling_policy=policy), times=TIMES)


def p99(samples: Sequence[float]) -> float:
    return percentile(sorted(samples), 99)


def merged(*traces: Sequence[TraceRequest]) -> list[TraceRequest]:
    return sorted((one for trace in traces for one in trace), key=lambda one: one.arrival_seconds)


def flood(rate: float, number: int, tenant: str, seed: int) -> list[TraceRequest]:
    return make_trace(
        Recipe(
            num_requests=number,
            rate=rate,
            input_lengths=Fixed(40),
            output_lengths=Fixed(20),
            tenants={tenant: 1.0},
            seed=seed,
        )
    )


def test_a_tenant_at_fifty_times_anothers_rate_delays_it_under_fcfs_but_not_under_fair() -> None:
    quiet = flood(1.0, 20, "quiet", seed=1)
    busy = flood(50.0, 1000, "busy", seed=2)
    alone = p99(run_with("fcfs", quiet).records.finished["quiet"].ttft)
    waits = {
        policy: p99(run_with(policy, merged(quiet, busy)).records.finished["quiet"].ttft)
        for policy in ("fcfs", "fair")
    }
    assert waits["fcfs"] > 30 * alone
    assert waits["fair"] < waits["fcfs"] / 10
    assert waits["fair"] < 6 * alone  # a slot has to come free: no policy takes one away


def test_urgent_requests_pass_the_others_under_priority() -> None:
    """The urgent ones have a name as well, by which their waits are told."""
    urgent = [
        request(at=float(i), prompt=40, answer=20, tenant="urgent", priority=-1)
        for i in range(1, 16)
    ]
    trace = merged(flood(60.0, 900, "", seed=3), urgent)
    fcfs, priority = (
        mean(run_with(policy, trace).records.finished["urgent"].ttft)
        for policy in ("fcfs", "priority")
    )
    assert priority < fcfs / 10


def test_short_requests_first_lower_the_mean_wait() -> None:
    mixed = [
        request(
            at=i / 40, prompt=(400, 20, 20, 20)[i % 4], answer=10, max_tokens=(400, 10)[i % 4 > 0]
        )
        for i in range(400)
    ]
    fcfs, sjf = (
        mean(run_with(policy, mixed).records.all_finished().ttft) for policy in ("fcfs", "sjf")
    )
    assert sjf < 0.6 * fcfs


def test_deadlines_are_kept_by_more_requests_when_they_make_the_order() -> None:
    """Half of the requests have two seconds, half twenty: the latter can wait."""
    mixed = [
        request(at=i / 42, prompt=40, answer=20, timeout=2.0 if i % 2 else 20.0) for i in range(600)
    ]

    def num_kept(policy: str) -> int:
        return len(run_with(policy, mixed).records.all_finished())

    fcfs, deadline = num_kept("fcfs"), num_kept("deadline")
    assert fcfs < 560
    assert deadline > fcfs + (600 - fcfs) / 2


def test_cached_beginnings_first_compute_less() -> None:
    """Eight beginnings in a cache that holds few of them."""
    source = [
        request(at=i / 60, prompt=180, answer=6, prefix=(((i * 5) % 8, 160),)) for i in range(300)
    ]

    def hit_share(policy: str) -> float:
        config = engine(scheduling_policy=policy, max_num_seqs=4)
        run = run_of(source, config, times=TIMES, num_pages=60)
        stats = run.replicas[0].scheduler.kv.stats()
        return stats.prefix_hits / stats.prefix_queries

    assert hit_share("cache_aware") > 1.3 * hit_share("fcfs")


def test_a_step_target_keeps_gaps_short_while_long_prompts_come() -> None:
    """Without, a chunk of 64 tokens takes 34 ms of every decode's time."""
    writers = [request(prompt=16, answer=300) for _ in range(4)]
    readers = [request(at=0.5 + i / 2, prompt=600, answer=2) for i in range(8)]
    gaps = {}
    for target in (0.0, 0.012):
        run = run_of([*writers, *readers], engine(max_step_seconds=target), times=TIMES)
        gaps[target] = run.records.gaps.percentiles([99])[0]
        assert len(run.records.all_finished()) == 12
    assert gaps[0.0] > 0.03
    assert gaps[0.012] < 0.016


def test_admission_refuses_what_would_wait_too_long() -> None:
    """Twice what the machine can do: without admission the wait grows without bound."""
    trace = flood(90.0, 900, "", seed=4)
    options = ServerConfig(max_queue_seconds=0.5)
    open_door = run_of(trace, times=TIMES)
    kept = run_of(trace, times=TIMES, server=options, has_admission=True)
    assert open_door.records.num_refused.total() == 0
    assert p99(open_door.records.all_finished().ttft) > 5.0
    assert kept.records.num_refused.total() > 200
    assert p99(kept.records.all_finished().ttft) < 1.5
    rate_of = [
        len(run.records.all_finished()) / run.records.last_seconds for run in (open_door, kept)
    ]
    assert rate_of[1] > 0.85 * rate_of[0]


def test_whom_the_policy_lets_pass_is_not_refused_for_the_queue_that_it_passes() -> None:
    """One urgent request a second while twice as much comes as can be answered."""
    urgent = [
        request(at=float(i), prompt=40, answer=20, tenant="urgent", priority=-1)
        for i in range(1, 10)
    ]
    trace = merged(flood(90.0, 900, "", seed=3), urgent)
    options = ServerConfig(max_queue_seconds=0.25)
    fcfs, priority = (
        run_of(
            trace,
            engine(scheduling_policy=policy),
            times=TIMES,
            server=options,
            has_admission=True,
        ).records.num_refused["urgent"]
        for policy in ("fcfs", "priority")
    )
    assert fcfs > 3
    assert priority == 0


def test_weights_of_tenants_come_from_their_file(tmp_path: Path) -> None:
    file = tmp_path / "tenants.yaml"
    file.write_text("tenants: {a: {weight: 3}, b: {weight: 1}}")
    trace = merged(flood(60.0, 400, "a", seed=5), flood(60.0, 400, "b", seed=6))
    run = run_of(
        trace,
        engine(scheduling_policy="fair"),
        times=TIMES,
        server=ServerConfig(tenants=str(file)),
    )
    finished: dict[str, Finished] = run.records.finished
    assert mean(finished["a"].ttft) < 0.6 * mean(finished["b"].ttft)
