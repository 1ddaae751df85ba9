"""What `octavo inspect engine` shows: two snapshots of a server's metrics as tables. No network."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Group
from rich.table import Table

from octavo.metrics.snapshot import Snapshot

LATENCIES = (
    ("queue", "vllm:request_queue_time_seconds"),
    ("first token", "vllm:time_to_first_token_seconds"),
    ("between tokens", "vllm:inter_token_latency_seconds"),
    ("whole answer", "vllm:e2e_request_latency_seconds"),
)
NOTHING = "-"


def engine_view(now: Snapshot, before: Snapshot | None) -> Group:
    """Tables of the state now, and of what happened since `before`, or since the server's start."""
    news = now if before is None else now.since(before)
    span = "since its start" if before is None else f"in the last {news.time:.1f} s"
    return Group(
        _state(now),
        _events(news, span, has_rates=before is not None),
        _latencies(news, span),
        _tenants(now, news),
    )


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", box=None, header_style="bold")
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index == 0 else "right")
    return table


def _state(now: Snapshot) -> Table:
    table = Table(title="now", title_justify="left", box=None, show_header=False)
    reasons = now.by_label("vllm:num_requests_waiting_by_reason", "reason")
    waiting = _listed(reasons.items())
    swapped = now.value("vllm:num_requests_swapped")
    table.add_row("running", _count(now.value("vllm:num_requests_running")))
    table.add_row("waiting", f"{_count(now.value('vllm:num_requests_waiting'))}{waiting}")
    table.add_row("swapped", _count(swapped))
    table.add_row("prompt tokens to compute", _count(now.value("octavo:num_waiting_tokens")))
    table.add_row("pages", _pages(now))
    table.add_row("waste in pages", _waste(now))
    table.add_row(
        "seconds per prompt token", _seconds(now.value("octavo:prompt_seconds_per_token"))
    )
    table.add_row(
        "seconds per decode in a step", _seconds(now.value("octavo:step_seconds_per_sequence"))
    )
    return table


def _pages(now: Snapshot) -> str:
    num_pages = now.value("octavo:num_pages")
    share = now.value("vllm:kv_cache_usage_perc")
    cached = now.value("octavo:num_cached_pages")
    return (
        f"{_count(share * num_pages)} of {_count(num_pages)} held ({share:.1%}), "
        f"{_count(cached)} only cached"
    )


def _waste(now: Snapshot) -> str:
    """Slots of held pages without a token."""
    page_tokens = now.label("vllm:cache_config_info", "block_size")
    num_held = now.value("vllm:kv_cache_usage_perc") * now.value("octavo:num_pages")
    num_slots = num_held * int(page_tokens) if page_tokens.isdecimal() else 0.0
    wasted = now.value("octavo:num_wasted_slots")
    share = f" ({wasted / num_slots:.1%})" if num_slots else ""
    return f"{_count(wasted)} slots{share}"


EVENTS = (
    ("steps", "octavo:steps_total"),
    ("prompt tokens", "vllm:prompt_tokens_total"),
    ("generated tokens", "vllm:generation_tokens_total"),
    ("preemptions", "vllm:num_preemptions_total"),
    ("tokens computed again", "octavo:wasted_tokens_total"),
    ("pages copied", "octavo:copied_pages_total"),
    ("pages swapped out", "octavo:swapped_out_pages_total"),
    ("pages swapped in", "octavo:swapped_in_pages_total"),
    ("expired", "octavo:expired_requests_total"),
)


def _events(news: Snapshot, span: str, *, has_rates: bool) -> Table:
    table = _table(span, "", "number", "per second")
    for title, name in EVENTS:
        rate = f"{news.rate(name):.1f}" if has_rates else NOTHING
        table.add_row(title, _count(news.value(name)), rate)
    looked_up = news.value("vllm:prefix_cache_queries_total")
    hits = news.value("vllm:prefix_cache_hits_total")
    share = f"{hits / looked_up:.1%}" if looked_up else NOTHING
    table.add_row(f"prompt tokens cached ({share})", _count(hits), NOTHING)
    refused = news.by_label("octavo:refused_requests_total", "code")
    table.add_row(f"refused{_listed(refused.items())}", _count(sum(refused.values())), NOTHING)
    finished = news.by_label("vllm:request_success_total", "finished_reason")
    table.add_row(f"finished{_listed(finished.items())}", _count(sum(finished.values())), NOTHING)
    return table


def _latencies(news: Snapshot, span: str) -> Table:
    table = _table(f"seconds {span}", "", "p50", "p90", "p99")
    for title, name in LATENCIES:
        table.add_row(title, *(_quantile(news.quantile(name, q)) for q in (0.5, 0.9, 0.99)))
    return table


def _tenants(now: Snapshot, news: Snapshot) -> Table:
    waiting = now.by_label("octavo:num_requests_waiting_by_tenant", "tenant")
    policy = now.label("octavo:queue_seconds_count", "policy")
    title = f"tenants, by the policy {policy}" if policy else "tenants"
    table = _table(title, "", "waiting", "queue p50", "queue p99")
    known = now.by_label("octavo:queue_seconds_count", "tenant")
    for tenant in sorted(waiting.keys() | known.keys()):
        quantiles = [
            news.quantile("octavo:queue_seconds", share, policy=policy, tenant=tenant)
            for share in (0.5, 0.99)
        ]
        table.add_row(tenant, _count(waiting.get(tenant, 0)), *map(_quantile, quantiles))
    return table


def _listed(items: Iterable[tuple[str, float]]) -> str:
    """ " (slots 2, pages 1)", without what is 0."""
    parts = [f"{name} {_count(value)}" for name, value in items if value]
    return f" ({', '.join(parts)})" if parts else ""


def _count(value: float) -> str:
    return f"{value:,.0f}"


def _seconds(value: float) -> str:
    return f"{value:.2e}" if value else NOTHING


def _quantile(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.3f}"
