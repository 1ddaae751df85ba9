"""`best_of`: the most probable of several drawn sequences, said when the last has ended."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from octavo.core.outputs import DEADLINE_EXCEEDED
from octavo.core.sampling_params import SamplingParams
from tests.engine.drive_engine import Rig
from tests.fakes import EOS, fake_logprobs, make_request, make_scheduler

PARAMS = SamplingParams(n=2, best_of=5, max_tokens=6, seed=3)
PROMPT = "eleven byte"


def drawn(params: SamplingParams) -> list[tuple[float, list[int]]]:
    """(minus the cumulative log probability, ids) of all sequences, each drawn on its own."""
    rig = Rig()
    rig.answer(make_request(PROMPT, replace(params, n=5, best_of=None)))
    found = []
    for index in range(5):
        ids = rig.ids(("r", index))
        contexts = [[*PROMPT.encode(), *ids[:position]] for position in range(len(ids))]
        pairs = zip(contexts, ids, strict=True)
        found.append((-sum(fake_logprobs(*pair).logprob for pair in pairs), ids))
    return found


def test_the_most_probable_sequences_are_the_answers_best_first() -> None:
    rig = Rig()
    rig.answer(make_request(PROMPT, PARAMS))
    expected = sorted(drawn(PARAMS))[:2]
    for index, (minus_logprob, ids) in enumerate(expected):
        (output,) = rig.said["r", index]
        assert output.token_ids == ids
        assert output.text == bytes(ids).decode(errors="replace")
        assert output.cumulative_logprob == pytest.approx(-minus_logprob)
        assert output.logprobs is None
        assert rig.times["r", index].num_generation_tokens == 6
    assert rig.said.keys() == {("r", 0), ("r", 1)}


def test_logprobs_come_with_the_answers_if_asked_for() -> None:
    rig = Rig()
    rig.answer(make_request(PROMPT, replace(PARAMS, logprobs=0)))
    output = rig.last(("r", 0))
    assert output.logprobs is not None
    assert [entry.token_id for entry in output.logprobs] == output.token_ids


def test_nothing_is_picked_where_all_are_answers() -> None:
    rig = Rig()
    rig.answer(make_request(PROMPT, replace(PARAMS, n=5)))
    assert [rig.ids(("r", index)) for index in range(5)] == [ids for _, ids in drawn(PARAMS)]
    assert len(rig.said["r", 0]) > 1


@pytest.mark.parametrize("num_steps", [0, 3, 8])
def test_an_abort_gives_one_word_per_answer(num_steps: int) -> None:
    """Also when some of the sequences have ended: two of five run at a time."""
    rig = Rig(scheduler=make_scheduler(max_num_seqs=2, eos_token_ids=frozenset({EOS})))
    rig.engine.submit(make_request(PROMPT, PARAMS))
    for _ in range(num_steps):
        rig.step()
    rig.engine.abort("r")
    rig.drain()
    assert {key: rig.last(key).finish_reason for key in rig.said} == {
        ("r", 0): "abort",
        ("r", 1): "abort",
    }


def test_a_deadline_gives_one_error_per_answer() -> None:
    rig = Rig()
    rig.engine.submit(make_request(PROMPT, PARAMS, deadline=rig.clock() + 1))
    rig.step()
    rig.clock.advance(2)
    rig.drain()
    assert [rig.last(("r", index)).error for index in range(2)] == [DEADLINE_EXCEEDED] * 2
