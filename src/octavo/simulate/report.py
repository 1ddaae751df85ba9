"""From the records of a run to the figures that are told, as plain data with a JSON form."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec

from octavo.bench.report import Setting
from octavo.bench.statistics import percentile
from octavo.simulate.records import Finished, Gaps, Point
from octavo.simulate.simulation import Run
from octavo.simulate.slo import Slo, keeps

SCHEMA = "octavo-simulation/1"
LEFT_OUT = (
    "answers do not depend on load: nobody hangs up, retries or writes less when it is slow",
    "a step takes exactly what the profile says: no jitter, no other users of the machine",
    "tokenising, HTTP and messages are two constants per request, whatever their load",
    "networks between client, router and replicas take no time; the router knows at once",
    "devices never fail, models are never loaded, and nobody scales up or down",
    "speculative decoding, mixtures of experts and sliding windows are not in the profiles",
)


class Spread(msgspec.Struct, frozen=True):
    """In seconds."""

    mean: float
    p50: float
    p90: float
    p99: float
    most: float


class TenantFigures(msgspec.Struct, frozen=True, kw_only=True):
    tenant: str
    num_finished: int
    num_expired: int
    num_refused: int
    num_output_tokens: int
    ttft: Spread
    e2e: Spread


class SimulationReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`results` are single figures; `latencies` by kind: ttft, tpot, itl, e2e, per_token."""

    settings: dict[str, Setting]
    assumptions: list[str]
    left_out: list[str]
    results: dict[str, float]
    latencies: dict[str, Spread]
    tenants: list[TenantFigures]
    timeline: list[tuple[float, int, int, float]]
    """Seconds, running, waiting, share of the pages in use."""
    schema: str = SCHEMA


def report_to_json(report: SimulationReport) -> bytes:
    fields = {**msgspec.to_builtins(report), "schema": report.schema}
    return msgspec.json.format(msgspec.json.encode(fields), indent=2) + b"\n"


def report_of(run: Run, settings: Mapping[str, Setting], slo: Slo | None) -> SimulationReport:
    records = run.records
    everyone = records.all_finished()
    return SimulationReport(
        settings=dict(settings),
        assumptions=run.setup.times.assumptions,
        left_out=list(LEFT_OUT),
        results={
            **_counts(run, everyone),
            **_rates(run, everyone),
            **_engine_figures(run, everyone),
            **(_slo_figures(run, everyone, slo) if slo is not None else {}),
            "fairness_jain": jain([_speed(one) for one in records.finished.values()]),
        },
        latencies={**latencies(everyone), **_gap_spread(records.gaps)},
        tenants=[
            _tenant_figures(run, tenant, one) for tenant, one in sorted(records.finished.items())
        ],
        timeline=[
            (round(p.seconds, 6), p.num_running, p.num_waiting, round(p.page_share, 4))
            for p in records.timeline.points
        ],
    )


def latencies(finished: Finished) -> dict[str, Spread]:
    """Empty where nothing was answered."""
    samples: dict[str, Sequence[float]] = {
        "ttft": finished.ttft,
        "tpot": finished.tpot(),
        "e2e": finished.latency,
        "per_token": finished.per_token(),
    }
    return {kind: spread(values) for kind, values in samples.items() if len(values)}


def spread(samples: Sequence[float]) -> Spread:
    """Of at least one sample."""
    ordered = sorted(samples)
    mean = math.fsum(ordered) / len(ordered)
    p50, p90, p99 = (percentile(ordered, percent) for percent in (50, 90, 99))
    return Spread(mean, p50, p90, p99, ordered[-1])


def jain(values: Sequence[float]) -> float:
    """1 if all are equal, 1/n if one has everything (Jain, Chiu, Hawe 1984); 1 for nobody."""
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else 1.0


def _speed(finished: Finished) -> float:
    """How fast a tenant's answers come, waiting included: mean tokens per second of a request."""
    rates = [1 / seconds for seconds in finished.per_token()]
    return math.fsum(rates) / len(rates)


def _gap_spread(gaps: Gaps) -> dict[str, Spread]:
    if gaps.mean == 0.0:
        return {}
    p50, p90, p99, most = gaps.percentiles([50, 90, 99, 100])
    return {"itl": Spread(gaps.mean, p50, p90, p99, most)}


def _counts(run: Run, everyone: Finished) -> dict[str, float]:
    records = run.records
    return {
        "num_requests": len(run.source.requests),
        "num_finished": len(everyone),
        "num_expired": records.num_expired.total(),
        "num_refused": records.num_refused.total(),
        "num_too_long": records.num_too_long.total(),
        "num_prompt_tokens": sum(everyone.num_prompt_tokens),
        "num_output_tokens": sum(everyone.num_output_tokens),
    }


def _duration(run: Run) -> float:
    return max(run.records.last_seconds - run.records.first_seconds, 1e-9)


def _rates(run: Run, everyone: Finished) -> dict[str, float]:
    """`drain_seconds`: from the last arrival to the last answer. Far more than an answer takes
    means that requests came faster than they could be answered."""
    records, duration = run.records, _duration(run)
    num_outputs = sum(everyone.num_output_tokens)
    figures = {
        "duration_seconds": duration,
        "request_throughput": len(everyone) / duration,
        "output_throughput": num_outputs / duration,
        "total_token_throughput": (num_outputs + sum(everyone.num_prompt_tokens)) / duration,
    }
    if run.source.num_clients is None:
        figures["drain_seconds"] = records.last_seconds - records.last_arrival_seconds
        figures["backlog_share"] = backlog_share(run)
    return figures


def backlog_share(run: Run) -> float:
    """Of the requests that came in the second half of the time, how many more wait at its end than
    at its beginning: clearly above 0 where more come than can be answered, however few of those in
    the trace were late because of it. One of each replica may just be waiting for a step's end."""
    records, requests = run.records, run.source.requests
    last = records.last_arrival_seconds
    middle = (records.first_seconds + last) / 2
    num_late = sum(request.arrival_seconds > middle for request in requests)
    if run.source.num_clients is not None or not num_late or not records.timeline.points:
        return 0.0
    before, after = (records.timeline.at(seconds).num_waiting for seconds in (middle, last))
    return max(0, after - before - len(run.replicas)) / num_late


def _engine_figures(run: Run, everyone: Finished) -> dict[str, float]:
    """`num_wasted_tokens` were computed again after a preemption, or for a request that expired."""
    steps = [replica.steps for replica in run.replicas]
    num_steps = sum(len(one.end_seconds) for one in steps)
    num_computed = sum(one.num_tokens for one in steps)
    stats = [replica.scheduler.kv.stats() for replica in run.replicas]
    num_hits = sum(one.prefix_hits for one in stats)
    num_queries = sum(one.prefix_queries for one in stats)
    # The last token of an answer is drawn and never computed.
    num_wanted = sum(everyone.num_prompt_tokens) + sum(everyone.num_output_tokens) - len(everyone)
    points: list[Point] = run.records.timeline.points
    return {
        "num_replicas": len(run.replicas),
        "busy_share": sum(one.busy_seconds for one in steps) / _duration(run) / len(steps),
        "num_steps": num_steps,
        "mean_step_sequences": sum(one.num_sequences for one in steps) / max(1, num_steps),
        "mean_step_tokens": num_computed / max(1, num_steps),
        "num_preemptions": sum(one.scheduler.num_preemptions for one in run.replicas),
        "num_wasted_tokens": max(0, num_computed + num_hits - num_wanted),
        "prefix_hit_share": num_hits / num_queries if num_queries else 0.0,
        "mean_page_share": sum(p.page_share for p in points) / max(1, len(points)),
        "most_page_share": max((p.page_share for p in points), default=0.0),
        "most_waiting": max((p.num_waiting for p in points), default=0),
    }


def _slo_figures(run: Run, everyone: Finished, slo: Slo) -> dict[str, float]:
    """Shares of all requests that were sent: who is not answered is not served in time."""
    num_sent = len(run.source.requests)
    figures: dict[str, float] = {}
    for kind, kept in keeps(everyone, slo).items():
        name = "slo_share" if kind == "all" else f"slo_share_{kind}"
        figures[name] = sum(kept) / num_sent
    figures["goodput"] = figures["slo_share"] * num_sent / _duration(run)
    return figures


def _tenant_figures(run: Run, tenant: str, finished: Finished) -> TenantFigures:
    return TenantFigures(
        tenant=tenant,
        num_finished=len(finished),
        num_expired=run.records.num_expired[tenant],
        num_refused=run.records.num_refused[tenant],
        num_output_tokens=sum(finished.num_output_tokens),
        ttft=spread(finished.ttft),
        e2e=spread(finished.latency),
    )
