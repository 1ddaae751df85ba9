"""Only what a whole crowd does together counts as a step of so many rows."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

import octavo.simulate.probe
from octavo.bench.load import COMPLETIONS, LoadError, Outcome, Server
from octavo.bench.workload import LoadRequest
from octavo.core.step_load import StepLoad
from octavo.simulate.measured import MeasuredTimes, fit
from octavo.simulate.probe import Plan, page_facts_of, probe, together

SERVER = Server(base_url="http://127.0.0.1:1", endpoint=COMPLETIONS, model="m")
PLAN = Plan(
    crowds=(1, 4, 16), contexts=(16, 64), prompts=(1, 16, 64, 100), rounds=3, max_step_tokens=64
)


def outcome(*arrivals: float) -> Outcome:
    return Outcome(10, len(arrivals), list(arrivals))


def test_times_while_others_read_or_are_done_do_not_count() -> None:
    """The second begins at 3 seconds, when the first is halfway; the first ends at 5.5."""
    first = outcome(0.0, 1.5, 3.0, 4.0, 5.0, 5.5)
    second = outcome(3.0, 4.0, 5.0, 6.0, 6.1)
    assert together([first, second]) == pytest.approx([1.0, 1.0, 0.5, 1.0, 1.0])


def test_a_crowd_that_is_never_together_has_no_times() -> None:
    assert together([outcome(0.0, 1.0), outcome(2.0, 3.0)]) == []


def seconds_of(num_tokens: int, num_drawn: int) -> float:
    return 0.01 + 0.001 * num_tokens + 0.0005 * num_drawn


def test_a_server_of_known_costs_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some answers are ten times as slow: that is not what is usual."""
    num_loads = 0

    async def answer(server: Server, requests: Sequence[LoadRequest]) -> list[Outcome]:  # noqa: ARG001
        nonlocal num_loads
        num_loads += 1
        slowness = 10.0 if num_loads % 13 == 0 else 1.0
        crowd, words = len(requests), requests[0].num_prompt_tokens
        first = sum(seconds_of(min(64, words - at), at + 64 >= words) for at in range(0, words, 64))
        gap = seconds_of(crowd, crowd)
        times = [slowness * (0.1 + first + gap * index) for index in range(requests[0].max_tokens)]
        return [Outcome(words, len(times), times) for _ in requests]

    monkeypatch.setattr(octavo.simulate.probe, "run_load", answer)
    profile = fit(asyncio.run(probe(SERVER, PLAN)), "m", "x")
    times = MeasuredTimes(profile)
    assert profile.request_seconds == pytest.approx(0.1, rel=0.05)
    assert times.seconds(StepLoad(4, 4, 4, 100, 0, 100)) == pytest.approx(0.016, rel=0.05)
    assert times.seconds(StepLoad(64, 1, 1, 0, 2000, 64)) == pytest.approx(0.0745, rel=0.1)


def test_a_server_that_fails_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(server: Server, requests: Sequence[LoadRequest]) -> list[Outcome]:  # noqa: ARG001
        return [Outcome(3, error="HTTP 500")]

    monkeypatch.setattr(octavo.simulate.probe, "run_load", fail)
    with pytest.raises(LoadError, match="failed to answer: HTTP 500"):
        asyncio.run(probe(SERVER, PLAN))


def test_a_server_that_does_not_stream_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    async def at_once(server: Server, requests: Sequence[LoadRequest]) -> list[Outcome]:  # noqa: ARG001
        return [outcome(1.0, 1.0, 1.0) for _ in requests]

    monkeypatch.setattr(octavo.simulate.probe, "run_load", at_once)
    with pytest.raises(LoadError, match="sends its answers at once"):
        asyncio.run(probe(SERVER, PLAN))


def test_the_servers_pages_are_read_from_its_metrics() -> None:
    info = 'vllm:cache_config_info{block_size="16",num_gpu_blocks="120",page_windows="0,512"} 1.0'
    assert page_facts_of(info) == (120, [0, 512])
    assert page_facts_of(info.replace("page_windows", "other")) == (120, [0])
    assert page_facts_of("") == (None, [0])
