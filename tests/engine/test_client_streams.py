from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.core.outputs import EngineOutputs, SequenceOutput, TokenLogprobs, merge_outputs
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


@given(st.lists(st.text(max_size=3), min_size=2, max_size=6), st.data())
def test_merging_is_associative_and_keeps_everything(texts: list[str], data: st.DataObject) -> None:
    pieces = [
        SequenceOutput(request_id="a", text=text, token_ids=[i], num_cached_tokens=i)
        for i, text in enumerate(texts)
    ]
    while len(pieces) > 1:
        at = data.draw(st.integers(0, len(pieces) - 2))
        pieces[at : at + 2] = [merge_outputs(pieces[at : at + 2])]
    assert pieces[0].text == "".join(texts)
    assert pieces[0].token_ids == list(range(len(texts)))
    assert pieces[0].logprobs is None


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
