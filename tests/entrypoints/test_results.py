"""The engine's deltas add up to vLLM's result objects."""

from __future__ import annotations

import pytest

from octavo.core.outputs import SequenceOutput, TokenLogprobs
from octavo.core.request import EngineRequest
from octavo.core.sampling_params import SamplingParams
from octavo.entrypoints.results import Logprob, ResultBuilder


class Letters:
    def token_text(self, token_id: int) -> str:
        return chr(ord("a") + token_id)


def builder(n: int = 1) -> ResultBuilder:
    request = EngineRequest(
        request_id="r",
        prompt_token_ids=[1, 2],
        sampling_params=SamplingParams(n=n),
        arrival_time=0.0,
    )
    return ResultBuilder(request, "bc", Letters())


def delta(index: int = 0, **fields: object) -> SequenceOutput:
    return SequenceOutput(request_id="r", index=index, **fields)  # type: ignore[arg-type]


def test_text_and_ids_are_joined_and_the_end_is_noted() -> None:
    built = builder()
    built.add(delta(token_ids=[0, 1], text="ab", num_cached_tokens=16))
    assert not built.result.finished
    built.add(delta(token_ids=[2], text="c", finish_reason="stop", stop_reason="d"))
    result = built.result
    answer = result.outputs[0]
    assert (answer.text, answer.token_ids) == ("abc", [0, 1, 2])
    assert (answer.finish_reason, answer.stop_reason) == ("stop", "d")
    assert (result.prompt, result.prompt_token_ids) == ("bc", [1, 2])
    assert result.finished
    assert result.num_cached_tokens == 16
    assert answer.logprobs is None
    assert answer.cumulative_logprob is None


def test_a_request_is_finished_when_all_its_answers_are() -> None:
    built = builder(n=2)
    built.add(delta(index=1, text="x", finish_reason="length"))
    assert not built.result.finished
    built.add(delta(index=0, text="y", finish_reason="stop"))
    assert built.result.finished
    assert [item.text for item in built.result.outputs] == ["y", "x"]


def test_logprobs_hold_the_chosen_token_and_the_most_probable_ones() -> None:
    built = builder()
    entry = TokenLogprobs(
        token_id=3, logprob=-4.0, rank=7, top_token_ids=[0, 1], top_logprobs=[-0.5, -1.5]
    )
    built.add(delta(token_ids=[3], logprobs=[entry]))
    chosen_is_top = TokenLogprobs(
        token_id=0, logprob=-0.25, rank=1, top_token_ids=[0], top_logprobs=[-0.25]
    )
    built.add(delta(token_ids=[0], logprobs=[chosen_is_top]))
    answer = built.result.outputs[0]
    assert answer.logprobs == [
        {3: Logprob(-4.0, 7, "d"), 0: Logprob(-0.5, 1, "a"), 1: Logprob(-1.5, 2, "b")},
        {0: Logprob(-0.25, 1, "a")},
    ]
    assert answer.cumulative_logprob == pytest.approx(-4.25)


def test_prompt_logprobs_begin_with_none() -> None:
    built = builder()
    entry = TokenLogprobs(token_id=2, logprob=-1.0, rank=1, top_token_ids=[], top_logprobs=[])
    built.add(delta(prompt_logprobs=[None, entry]))
    assert built.result.prompt_logprobs == [None, {2: Logprob(-1.0, 1, "c")}]
