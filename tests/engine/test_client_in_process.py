from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from octavo.core.outputs import EngineOutputs
from octavo.engine.in_process import InProcessEngine
from octavo.errors import EngineDead
from tests.engine.tiny_engine import FOREVER, RAISE, REFUSE, TinyEngine, tiny_request


class Recorder:
    """An observer that remembers."""

    def __init__(self) -> None:
        self.submitted_ids: list[str] = []
        self.steps: list[EngineOutputs] = []
        self.lost_ids: list[str] = []

    def submitted(self, request: object) -> None:
        self.submitted_ids.append(getattr(request, "request_id", ""))

    def stepped(self, outputs: EngineOutputs) -> None:
        self.steps.append(outputs)

    def lost(self, request_ids: object) -> None:
        assert isinstance(request_ids, tuple)
        self.lost_ids += request_ids


def _run(scenario: Callable[[InProcessEngine, Recorder], Awaitable[None]]) -> Recorder:
    async def run() -> Recorder:
        client, recorder = InProcessEngine(TinyEngine()), Recorder()
        client.observe(recorder)
        facts = await client.start()
        assert facts.num_pages == 8
        try:
            await scenario(client, recorder)
        finally:
            await client.shutdown()
        return recorder

    return asyncio.run(asyncio.wait_for(run(), 20))


def test_concurrent_requests_get_their_own_outputs() -> None:
    async def scenario(client: InProcessEngine, _: Recorder) -> None:
        streams = [client.submit(tiny_request(f"r{i}", i, i + 1, i + 2)) for i in range(20)]
        for i, stream in enumerate(streams):
            text = "".join([output.text async for output in stream])
            assert text == f"{i} {i + 1} {i + 2} "
        assert client.stats().num_running == 0

    assert len(_run(scenario).submitted_ids) == 20


def test_a_request_that_the_engine_refuses_ends_with_an_error_and_harms_nobody() -> None:
    async def scenario(client: InProcessEngine, _: Recorder) -> None:
        bad, good = client.submit(tiny_request("bad", REFUSE)), client.submit(tiny_request("ok", 5))
        (refused,) = [output async for output in bad]
        assert (refused.finish_reason, refused.error) == ("error", "refused by the engine")
        assert [output.text async for output in good] == ["5 "]

    _run(scenario)


def test_closing_a_stream_aborts_the_request() -> None:
    async def scenario(client: InProcessEngine, recorder: Recorder) -> None:
        stream = client.submit(tiny_request("r", FOREVER))
        await anext(stream)
        stream.close()
        while not any(o.finish_reason for step in recorder.steps for o in step.outputs):
            await asyncio.sleep(0.001)
        assert client.stats().num_used_pages == 0

    _run(scenario)


def test_an_engine_that_raises_fails_open_requests_and_stays_dead() -> None:
    async def scenario(client: InProcessEngine, recorder: Recorder) -> None:
        stream = client.submit(tiny_request("r", 5, RAISE))
        with pytest.raises(EngineDead) as caught:
            [output async for output in stream]
        assert "secret" not in caught.value.message
        assert recorder.lost_ids == ["r"]
        with pytest.raises(EngineDead):
            await client.check_health()
        with pytest.raises(EngineDead):
            client.submit(tiny_request("s", 5))
        await client.wait_gone()

    _run(scenario)


def test_shutdown_fails_what_is_open() -> None:
    async def scenario(client: InProcessEngine, _: Recorder) -> None:
        stream = client.submit(tiny_request("r", FOREVER))
        await anext(stream)
        await client.shutdown()
        with pytest.raises(EngineDead, match="shut down"):
            [output async for output in stream]

    _run(scenario)


def test_a_reset_reaches_the_engine_before_what_is_submitted_later() -> None:
    async def scenario(client: InProcessEngine, _: Recorder) -> None:
        assert client.stats().num_cached_pages == 5
        client.reset_prefix_cache()
        [_ async for _ in client.submit(tiny_request("r", 1))]
        assert client.stats().num_cached_pages == 0

    _run(scenario)


def test_an_orderly_end_closes_the_engine_and_nothing_can_be_reset_then() -> None:
    async def run() -> None:
        engine = TinyEngine()
        client = InProcessEngine(engine)
        await client.start()
        assert not engine.is_closed
        await client.shutdown()
        assert engine.is_closed
        with pytest.raises(EngineDead):
            client.reset_prefix_cache()

    asyncio.run(asyncio.wait_for(run(), 20))
