"""What processors do is checked, and only their own request suffers."""

from __future__ import annotations

import numpy as np
import pytest

from octavo.core.processor_call import MAX_PROCESSORS, ProcessorCall
from octavo.core.sampling_params import SamplingParams
from octavo.core.schedule import ScheduledStep
from octavo.errors import InvalidRequest, UnsupportedParameter
from octavo.kernels import _native as native
from octavo.sampling.processors.contract import LogitsProcessor, ProcessorFacts
from octavo.sampling.processors.guarded import GuardedProcessors, ProcessorFailed
from octavo.sampling.sampler import Sampler
from tests.sampling.processors import examples
from tests.sampling.test_sampler import STOPS, VOCAB_SIZE, decode, new_sequence, random_logits

FACTS = ProcessorFacts(vocab_size=VOCAB_SIZE, stop_token_ids=STOPS)
PROCESSORS: dict[str, LogitsProcessor] = {
    kind.__name__: kind(FACTS)
    for kind in (
        examples.Bans,
        examples.Raising,
        examples.NotANumber,
        examples.Infinite,
        examples.BansAll,
        examples.Allows,
        examples.Confused,
        examples.Writing,
    )
}


def _sampler() -> Sampler:
    return Sampler(VOCAB_SIZE, native.ThreadPool(1), processors=PROCESSORS)


def _params(*names: str, **kwargs: object) -> SamplingParams:
    calls = [ProcessorCall(name, dict(kwargs)) for name in names]
    return SamplingParams(temperature=0.0, logprobs=1, logits_processors=calls)


def test_banned_tokens_are_not_drawn_and_log_probabilities_stay_raw() -> None:
    row = random_logits(1)
    order = np.argsort(-row[0]).tolist()
    plain = new_sequence(SamplingParams(temperature=0.0, logprobs=1))
    banned = new_sequence(_params("Bans", ids=order[:2]), name="b")
    step = ScheduledStep([decode(plain), decode(banned)])
    without, with_bans = _sampler().sample(np.concatenate([row, row]), step, STOPS)
    assert (without.token_id, with_bans.token_id) == (order[0], order[2])
    assert without.logprobs is not None
    assert with_bans.logprobs is not None
    assert with_bans.logprobs.top_token_ids == without.logprobs.top_token_ids == [order[0]]


def test_a_processor_sees_how_far_the_answer_is() -> None:
    row = random_logits(1)
    best = int(np.argmax(row[0]))
    for after, drawn in ((3, False), (4, True)):
        sequence = new_sequence(_params("Bans", ids=[best], after=after), answer=3)
        (result,) = _sampler().sample(row, ScheduledStep([decode(sequence)]), STOPS)
        assert (result.token_id == best) == drawn


def test_several_act_one_after_the_other_with_bias_and_bans() -> None:
    row = random_logits(1)
    order = np.argsort(-row[0]).tolist()
    calls = [ProcessorCall("Bans", {"ids": [order[0]]}), ProcessorCall("Bans", {"ids": [order[1]]})]
    params = SamplingParams(temperature=0.0, logits_processors=calls, logit_bias={order[2]: -100.0})
    (result,) = _sampler().sample(row, ScheduledStep([decode(new_sequence(params))]), STOPS)
    assert result.token_id == order[3]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("Raising", "failed on this request"),
        ("Writing", "failed on this request"),
        ("NotANumber", "made the logit of token 3 nan"),
        ("Infinite", "made the logit of token 3 inf"),
        ("BansAll", "left no token"),
    ],
)
def test_a_failure_is_its_own_sequences_error_only(name: str, says: str) -> None:
    logits = np.concatenate([random_logits(1)] * 2)
    bad, good = new_sequence(_params(name)), new_sequence(_params("Bans", ids=[1]), name="b")
    step = ScheduledStep([decode(bad), decode(good)])
    failed, fine = _sampler().sample(logits, step, STOPS)
    assert says in failed.error
    assert name in failed.error
    assert "secret" not in failed.error
    assert fine.error == ""
    alone = _sampler().sample(logits[1:], ScheduledStep([decode(good)]), STOPS)
    assert [fine.token_id] == [one.token_id for one in alone]


def test_what_the_model_excludes_or_leaves_undefined_stays_so() -> None:
    row = random_logits(1)[0]
    row[10], row[11] = -np.inf, np.nan
    guarded = GuardedProcessors(PROCESSORS)
    tokens = np.array([1, 2], np.int32)
    ids, values = guarded.changed(row, tokens, 1, [ProcessorCall("Bans", {"ids": [10, 11, 12]})])
    assert (ids.tolist(), values.tolist()) == ([12], [-np.inf])
    with pytest.raises(ProcessorFailed, match="that the model excludes"):
        guarded.changed(row, tokens, 1, [ProcessorCall("Allows")])
    assert row[10] == -np.inf


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (ProcessorCall("Nobody"), "logits_processors has 'Nobody'; this server has Bans, "),
        (ProcessorCall("Bans", {"x": 1}), "Bans: ids and after are allowed"),
        (ProcessorCall("Confused"), "Confused cannot judge these kwargs"),
    ],
)
def test_what_a_request_may_not_ask_for_is_refused_before_it_runs(
    call: ProcessorCall, says: str
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        GuardedProcessors(PROCESSORS).check([call])
    assert says in str(caught.value)
    assert caught.value.param == "logits_processors"


def test_there_may_be_so_many_and_no_more() -> None:
    calls = [ProcessorCall("Bans")] * MAX_PROCESSORS
    assert SamplingParams(logits_processors=calls).logits_processors == calls
    with pytest.raises(InvalidRequest, match=f"at most {MAX_PROCESSORS}"):
        SamplingParams(logits_processors=[*calls, calls[0]])
    with pytest.raises(UnsupportedParameter, match="use_beam_search"):
        SamplingParams(use_beam_search=True, temperature=0.0, logits_processors=calls[:1])
