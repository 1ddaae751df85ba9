"""Requests for vectors in the whole engine, on the context-hash model: equal bits in any crowd."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from octavo.core.outputs import DEADLINE_EXCEEDED, SequenceOutput
from octavo.core.pooling import POOLING_TYPES, Pooling, PoolingType
from octavo.core.request import EngineRequest
from octavo.core.sampling_params import SamplingParams
from octavo.core.schedule import MoveKind
from tests.engine.drive_engine import Rig
from tests.fakes import HIDDEN_SIZE, NOW, make_request, make_scheduler

NO_ANSWER = SamplingParams(max_tokens=0, detokenize=False)


def wanting(
    prompt: str,
    method: PoolingType = "mean",
    *,
    request_id: str = "r",
    deadline: float | None = None,
) -> EngineRequest:
    pooling = Pooling(method=method, normalize=True, dimensions=HIDDEN_SIZE)
    return make_request(
        prompt, NO_ANSWER, request_id=request_id, pooling=pooling, deadline=deadline
    )


def embedding(outputs: list[SequenceOutput]) -> bytes:
    """Of a sequence that said one thing, its vector."""
    (output,) = outputs
    assert (output.finish_reason, output.token_ids, output.text) == ("stop", [], "")
    assert output.embedding is not None
    return output.embedding


def alone(request: EngineRequest) -> list[SequenceOutput]:
    scheduler = make_scheduler(
        num_pages=100, max_num_batched_tokens=256, enable_prefix_caching=False
    )
    return Rig(scheduler=scheduler).answer(request)


WANTED = st.lists(
    st.tuples(
        st.text("ab", min_size=1, max_size=30),
        st.sampled_from([None, *POOLING_TYPES]),  # None: an answer in words
    ),
    min_size=1,
    max_size=8,
)


def requests_of(wanted: list[tuple[str, PoolingType | None]]) -> list[EngineRequest]:
    return [
        make_request(prompt, SamplingParams(max_tokens=9, seed=i), request_id=str(i))
        if method is None
        else wanting(prompt, method, request_id=str(i))
        for i, (prompt, method) in enumerate(wanted)
    ]


@settings(max_examples=60, deadline=None)
@given(
    wanted=WANTED,
    num_pages=st.integers(12, 30),
    chunk=st.sampled_from([8, 11, 64]),
    num_swap_slots=st.sampled_from([0, 64]),
    caching=st.booleans(),
)
def test_alone_equals_batched_chunked_cached_and_preempted(
    wanted: list[tuple[str, PoolingType | None]],
    num_pages: int,
    chunk: int,
    num_swap_slots: int,
    caching: bool,
) -> None:
    scheduler = make_scheduler(
        num_pages=num_pages,
        max_num_batched_tokens=chunk,
        enable_prefix_caching=caching,
        num_swap_slots=num_swap_slots,
    )
    rig = Rig(scheduler=scheduler)
    requests = requests_of(wanted)
    for _ in range(2):
        rig.said.clear()
        rig.times.clear()
        for request in requests:
            rig.engine.submit(request)
        rig.drain()
        for request in requests:
            said = rig.said[request.request_id, 0]
            if request.pooling is not None:
                assert embedding(said) == embedding(alone(request))


@pytest.mark.parametrize("swap", [True, False])
@pytest.mark.parametrize("method", POOLING_TYPES)
def test_a_preempted_prompt_comes_to_the_same_vector(method: PoolingType, swap: bool) -> None:
    request = wanting("abcdefghij" * 4, method)
    rig = Rig(scheduler=make_scheduler(max_num_batched_tokens=8, num_swap_slots=64))
    rig.engine.submit(request)
    for _ in range(3):
        rig.step()
        (sequence,) = rig.runner.steps[-1].sequences
        rig.scheduler.preempt(sequence.sequence, swap=swap)
    rig.drain()
    assert embedding(rig.said["r", 0]) == embedding(alone(request))
    assert rig.times["r", 0].num_preemptions == 3
    moves = [move.kind for step in rig.runner.steps for move in step.moves]
    assert (MoveKind.SWAP_OUT in moves) == swap


@pytest.mark.parametrize("method", POOLING_TYPES)
def test_only_what_the_last_token_says_is_read_behind_the_cache(method: PoolingType) -> None:
    rig = Rig()
    first = rig.answer(wanting("abcdefghijkl", method))
    second = rig.answer(wanting("abcdefghijkl", method, request_id="again"))
    assert embedding(second) == embedding(first)
    assert second[0].num_cached_tokens == (8 if method == "last" else 0)


def test_its_pages_are_there_for_others() -> None:
    rig = Rig()
    rig.answer(wanting("abcdefghijkl"))
    assert rig.answer(make_request("abcdefghijkl", request_id="other"))[0].num_cached_tokens == 8


def test_no_row_of_it_goes_through_the_head() -> None:
    rig = Rig(scheduler=make_scheduler(max_num_batched_tokens=8))
    rig.engine.submit(wanting("abcdefghijk"))
    rig.engine.submit(make_request("abc", request_id="words"))
    rig.drain()
    parts = [part for step in rig.runner.steps for part in step.sequences]
    wants_logits = {
        part.sequence.request.request_id
        for part in parts
        if part.samples or part.wants_prompt_logprobs
    }
    assert wants_logits == {"words"}


def test_it_can_be_ended_from_outside_at_any_moment() -> None:
    rig = Rig(scheduler=make_scheduler(max_num_batched_tokens=8))
    for name in ("queued", "running", "late", "whole"):
        deadline = NOW + 5 if name == "late" else None
        rig.engine.submit(wanting("abcdefghijkl" * 2, request_id=name, deadline=deadline))
    rig.engine.abort("queued")
    rig.step()
    rig.engine.abort("running")
    rig.clock.advance(6)
    rig.drain()
    ends = {name: rig.last((name, 0)) for name in ("queued", "running", "late")}
    assert [end.finish_reason for end in ends.values()] == ["abort", "abort", "error"]
    assert all(end.embedding is None for end in ends.values())
    assert ends["late"].error == DEADLINE_EXCEEDED
    assert embedding(rig.said["whole", 0]) == embedding(alone(wanting("abcdefghijkl" * 2)))


def test_a_failed_step_ends_those_that_were_in_it_only() -> None:
    rig = Rig(fail_on=[0])
    rig.engine.submit(wanting("ab", request_id="failed"))
    rig.step()
    assert rig.last(("failed", 0)).finish_reason == "error"
    assert rig.last(("failed", 0)).embedding is None
    assert embedding(rig.answer(wanting("ab", request_id="next")))


def test_a_vector_crosses_the_pipe() -> None:
    output = alone(wanting("ab"))[0]
    again = msgspec.msgpack.decode(msgspec.msgpack.encode(output), type=SequenceOutput)
    assert again == output
    request = wanting("ab", "cls")
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(request), type=EngineRequest) == request
