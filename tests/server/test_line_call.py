"""A line outlives what its server goes through, and tells the truth about what it does not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec
import pytest
from starlette.requests import Request
from starlette.responses import Response

from octavo.entrypoints.openai.batches.line_call import MAX_ENGINE_DEATHS, LineCaller
from octavo.entrypoints.openai.batches.lines import RequestLine
from octavo.entrypoints.openai.endpoints import ENDPOINTS
from octavo.entrypoints.openai.intake.entries import Entry, Interrupted, one_by_one
from octavo.entrypoints.openai.schema.endpoint import line_handlers
from octavo.errors import CapacityError, DeadlineUnreachable, EngineDead
from tests.server.harness import Server, run

Handler = Callable[[bytes], Response]


async def answer_all(server: Server, handler: Handler, count: int = 1) -> dict[str, int]:
    """The status of each line where the route does what `handler` does with its body."""

    async def endpoint(request: Request) -> Response:
        body = await request.body()
        await asyncio.sleep(0)
        return handler(body)

    server.app.state.line_handlers = {"/v1/x": endpoint}
    caller = LineCaller(server.app)
    found: dict[str, int] = {}

    async def work(number: int, entry: Entry) -> None:
        body = msgspec.Raw(b"%d" % number)
        line = RequestLine(custom_id=str(number), method="POST", url="/v1/x", body=body)
        record = await caller.answer(line, "tenant", entry)
        assert record.response is not None
        found[line.custom_id] = record.response.status_code
        entry.end()

    await one_by_one(range(count), work)
    return found


def test_lines_may_ask_for_all_that_makes_or_reads_texts() -> None:
    assert set(line_handlers(ENDPOINTS)) == {
        "/v1/chat/completions",
        "/v1/completions",
        "/v1/responses",
        "/v1/embeddings",
        "/score",
        "/v1/score",
        "/rerank",
        "/v1/rerank",
        "/v2/rerank",
    }


def test_a_line_is_tried_again_after_its_engine_died() -> None:
    deaths = [EngineDead("died")] * (MAX_ENGINE_DEATHS - 1)

    def handler(body: bytes) -> Response:  # noqa: ARG001
        if deaths:
            raise deaths.pop()
        return Response(b"{}")

    async def scenario(server: Server) -> None:
        assert await answer_all(server, handler) == {"0": 200}

    run(scenario)


def test_the_line_that_kills_engines_is_found_and_the_others_are_answered() -> None:
    num_deaths = 0

    def handler(body: bytes) -> Response:
        nonlocal num_deaths
        if body == b"3":
            num_deaths += 1
        if body == b"3" or num_deaths == 1:
            raise EngineDead("died")
        return Response(b"{}")

    async def scenario(server: Server) -> None:
        found = await answer_all(server, handler, count=8)
        assert found.pop("3") == 503
        assert found == {str(n): 200 for n in range(8) if n != 3}
        assert num_deaths == MAX_ENGINE_DEATHS

    run(scenario)


def test_a_refusal_for_want_of_room_is_waited_out_and_a_deadline_is_not() -> None:
    refusals = [CapacityError("full", retry_after_seconds=0)] * 3

    def handler(body: bytes) -> Response:
        if body == b"1":
            raise DeadlineUnreachable("late")
        if refusals:
            raise refusals.pop()
        return Response(b"{}")

    async def scenario(server: Server) -> None:
        assert await answer_all(server, handler, count=2) == {"0": 200, "1": 503}

    run(scenario)


def test_a_line_that_the_end_of_the_server_catches_has_no_record() -> None:
    async def scenario(server: Server) -> None:
        def handler(body: bytes) -> Response:  # noqa: ARG001
            server.context.open_requests.is_draining = True
            raise EngineDead("the server is shutting down")

        with pytest.raises(Interrupted):
            await answer_all(server, handler, count=3)
        server.context.open_requests.is_draining = False

    run(scenario)


def test_what_fails_unexpectedly_is_logged_and_not_told(caplog: pytest.LogCaptureFixture) -> None:
    def handler(body: bytes) -> Response:  # noqa: ARG001
        raise RuntimeError("secret")

    async def scenario(server: Server) -> None:
        assert await answer_all(server, handler) == {"0": 500}
        assert "secret" in caplog.text

    run(scenario)


def test_one_piece_waits_for_its_turn() -> None:
    """Of any number no more are begun than were let in, and one."""
    begun: list[int] = []
    most_waiting = 0

    async def work(piece: int, entry: Entry) -> None:
        nonlocal most_waiting
        begun.append(piece)
        most_waiting = max(most_waiting, len(begun) - num_let_in[0])
        await asyncio.sleep(0)
        num_let_in[0] += 1
        entry.end()
        await asyncio.sleep(0.01)

    num_let_in = [0]
    asyncio.run(one_by_one(range(20), work))
    assert begun == list(range(20))
    assert most_waiting == 1


def test_a_failure_ends_all_pieces_and_is_told_as_it_is() -> None:
    ended: list[int] = []

    async def work(piece: int, entry: Entry) -> None:
        entry.end()
        try:
            if piece == 2:
                raise OSError("disk")
            await asyncio.sleep(10)
        finally:
            ended.append(piece)

    with pytest.raises(OSError, match="disk"):
        asyncio.run(one_by_one(range(5), work))
    assert sorted(ended) == list(range(len(ended)))
    assert 2 in ended
