from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.core.outputs import EngineOutputs, SequenceOutput, TokenLogprobs
from octavo.core.request import EngineRequest
from octavo.core.sampling_params import SamplingParams
from octavo.engine.streams import OutputRouter, OutputStream
from octavo.errors import EngineDead


def _request(request_id: str, n: int = 1) -> EngineRequest:
    return EngineRequest(
        request_id=request_id,
        prompt_token_ids=[1],
        sampling_params=SamplingParams(n=n),
        arrival_time=0.0,
    )


def _output(
    request_id: str, token_id: int, *, index: int = 0, last: bool = False
) -> SequenceOutput:
    return SequenceOutput(
        request_id=request_id,
        index=index,
        token_ids=[token_id],
        text=chr(token_id),
        logprobs=[TokenLogprobs(token_id, -1.0, 1, [], [])],
        finish_reason="stop" if last else None,
        stop_reason=token_id if last else None,
    )


async def _read(stream: OutputStream) -> list[SequenceOutput]:
    return [output async for output in stream]


def test_outputs_reach_their_own_request_only() -> None:
    async def scenario() -> None:
        router = OutputRouter(lambda _: None)
        first, second = router.open(_request("a")), router.open(_request("b"))
        router.deliver(
            EngineOutputs(outputs=[_output("a", 65, last=True), _output("b", 66, last=True)])
        )
        assert [output.text for output in await _read(first)] == ["A"]
        assert [output.text for output in await _read(second)] == ["B"]

    asyncio.run(scenario())


def test_a_slow_reader_gets_one_merged_output_per_sequence() -> None:
    async def scenario() -> None:
        router = OutputRouter(lambda _: None)
        stream = router.open(_request("a", n=2))
        for token_id in (65, 66, 67):
            router.deliver(EngineOutputs(outputs=[_output("a", token_id)]))
        router.deliver(EngineOutputs(outputs=[_output("a", 68, index=1, last=True)]))
        router.deliver(EngineOutputs(outputs=[_output("a", 69, last=True)]))
        outputs = await _read(stream)
        assert [(output.index, output.text) for output in outputs] == [(0, "ABCE"), (1, "D")]
        assert [len(output.logprobs or ()) for output in outputs] == [4, 1]
        assert outputs[0].stop_reason == 69

    asyncio.run(scenario())


@given(
    texts=st.lists(st.text(max_size=3), min_size=1, max_size=12),
    has_logprobs=st.booleans(),
    data=st.data(),
)
def test_whenever_it_is_read_the_parts_together_are_the_whole(
    texts: list[str], has_logprobs: bool, data: st.DataObject
) -> None:
    async def scenario() -> None:
        router = OutputRouter(lambda _: None)
        stream = router.open(_request("a", n=2))
        read = list[SequenceOutput]()
        for i, text in enumerate(texts):
            for index in (0, 1):
                piece = SequenceOutput(
                    request_id="a",
                    index=index,
                    token_ids=[i],
                    text=text,
                    logprobs=[TokenLogprobs(i, -1.0, 1, [], [])] if has_logprobs else None,
                    prompt_logprobs=[None] if i == 0 else None,
                    num_cached_tokens=7 if i == 0 else 0,
                    finish_reason="length" if i == len(texts) - 1 else None,
                    stop_reason=i,
                )
                router.deliver(EngineOutputs(outputs=[piece]))
            if data.draw(st.booleans()):
                taken = stream.take()
                assert [output.index for output in taken] == [0, 1]
                read += taken
        read += await _read(stream)
        for index in (0, 1):
            parts = [output for output in read if output.index == index]
            assert "".join(output.text for output in parts) == "".join(texts)
            ids = [token for output in parts for token in output.token_ids]
            assert ids == list(range(len(texts)))
            logprobs = [entry for output in parts for entry in output.logprobs or ()]
            assert [entry.token_id for entry in logprobs] == (ids if has_logprobs else [])
            assert [output.logprobs is not None for output in parts] == [has_logprobs] * len(parts)
            first, last = parts[0], parts[-1]
            assert (first.prompt_logprobs, first.num_cached_tokens) == ([None], 7)
            assert [output.finish_reason for output in parts[:-1]] == [None] * (len(parts) - 1)
            assert (last.finish_reason, last.stop_reason) == ("length", len(texts) - 1)

    asyncio.run(scenario())


def test_what_a_reader_has_taken_does_not_change_afterwards() -> None:
    router = OutputRouter(lambda _: None)
    stream = router.open(_request("a"))
    pieces = [_output("a", 65), _output("a", 66), _output("a", 67), _output("a", 68)]
    for piece in pieces[:2]:
        router.deliver(EngineOutputs(outputs=[piece]))
    taken = stream.take()[0]
    for piece in pieces[2:]:
        router.deliver(EngineOutputs(outputs=[piece]))
    assert (taken.token_ids, taken.text) == ([65, 66], "AB")
    assert [piece.token_ids for piece in pieces] == [[65], [66], [67], [68]]
    assert stream.take()[0].token_ids == [67, 68]


def test_what_had_arrived_is_read_before_the_error() -> None:
    async def scenario() -> None:
        router = OutputRouter(lambda _: None)
        stream = router.open(_request("a"))
        router.deliver(EngineOutputs(outputs=[_output("a", 65)]))
        router.fail_all(EngineDead("gone"))
        assert (await anext(stream)).text == "A"
        with pytest.raises(EngineDead, match="gone"):
            await anext(stream)

    asyncio.run(scenario())


def test_closing_aborts_once_and_only_what_is_unfinished() -> None:
    async def scenario() -> None:
        aborted: list[str] = []
        router = OutputRouter(aborted.append)
        running, finished = router.open(_request("a")), router.open(_request("b"))
        router.deliver(EngineOutputs(outputs=[_output("b", 66, last=True)]))
        for stream in (running, finished, running, finished):
            stream.close()
        assert aborted == ["a"]
        router.deliver(EngineOutputs(outputs=[_output("a", 65)]))
        assert await _read(running) == []

    asyncio.run(scenario())
