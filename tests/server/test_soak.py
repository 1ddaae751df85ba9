"""The acceptance script, in small, on the fake model; and that it finds what is wrong."""

from __future__ import annotations

import asyncio

import pytest

from benchmarks.soak import Tally, check_books, make_plans, read_metrics, soak
from octavo.config.server import ServerConfig
from tests.server.harness import Server, Setup
from tests.server.test_real_socket import serve


@pytest.mark.parametrize("cancel_share", [0.0, 0.4])
def test_the_books_agree_after_mixed_requests_with_cancels(
    cancel_share: float, capsys: pytest.CaptureFixture[str]
) -> None:
    async def scenario(server: Server, url: str) -> None:
        plans = make_plans(40, cancel_share, seed=1)
        for plan in plans:
            plan.body["prompt"] = str(plan.body["prompt"])[:300]
        assert await soak(url, plans, 16, api_key="") == []
        assert server.client.stats().num_used_pages == 0
        assert "40 answered" in capsys.readouterr().out or cancel_share

    serve(scenario, Setup(num_pages=1024, options=ServerConfig(max_num_queued_reqs=64)))


def test_books_that_do_not_agree_are_found() -> None:
    async def scenario(server: Server, url: str) -> None:
        before = await read_metrics(server.http)
        await server.complete("a", max_tokens=3)
        await asyncio.sleep(0)
        after = await read_metrics(server.http)
        right = Tally(num_answered=1, num_prompt_tokens=2, num_completion_tokens=3)
        assert check_books(right, before, after) == []
        assert len(check_books(Tally(num_cancelled=1), before, after)) == 0
        assert len(check_books(Tally(num_answered=2, num_prompt_tokens=9), before, after)) == 3
        stuck = {**after, "vllm:kv_cache_usage_perc": 0.5}
        assert "kv_cache_usage_perc" in check_books(right, before, stuck)[0]
        assert url

    serve(scenario)
