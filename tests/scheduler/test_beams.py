"""Beam search against an exhaustive reference and against transformers."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from octavo.core.sampling_params import SamplingParams
from octavo.core.schedule import Candidates
from octavo.scheduler.beams import BeamGroup, BeamRules, Continuation, Hypothesis
from octavo.scheduler.stopping import Finish
from tests.models.checks import hf_logits
from tests.models.tiny import TinyModel, write_tiny

Logprobs = npt.NDArray[np.float64]
LanguageModel = Callable[[tuple[int, ...]], Logprobs]
Ids = tuple[int, ...]
EarlyStopping = bool | Literal["never"]

RULES = BeamRules(
    width=2,
    max_new_tokens=4,
    length_penalty=1.0,
    early_stopping=False,
    eos_token_ids=frozenset({0}),
    stop_token_ids=frozenset(),
)


def candidates_of(logprobs: Logprobs, rules: BeamRules) -> Candidates:
    """As few as are promised to suffice."""
    count = rules.width + len(rules.eos_token_ids | rules.stop_token_ids)
    order = np.argsort(-logprobs, kind="stable")[:count]
    return Candidates(order.tolist(), logprobs[order].tolist())


def search(model: LanguageModel, rules: BeamRules) -> list[Hypothesis]:
    group = BeamGroup(rules)
    while not group.is_over:
        before = [beam.token_ids for beam in group.beams]
        moves = group.advance([candidates_of(model(ids), rules) for ids in before])
        after = [(*before[parent], token_id) for parent, token_id in moves]
        assert after == [beam.token_ids for beam in group.beams]
    return group.best(rules.width)


def exhaustive_search(model: LanguageModel, rules: BeamRules) -> list[tuple[float, Ids]]:
    """(worth, ids) by looking at every token of every beam."""
    stops = rules.eos_token_ids | rules.stop_token_ids
    live: list[tuple[float, Ids]] = [(0.0, ())]
    ended: list[tuple[float, Ids]] = []
    for length in range(1, rules.max_new_tokens + 1):
        ranked = sorted(
            (
                (sum_ + new, (*ids, token))
                for sum_, ids in live
                for token, new in enumerate(model(ids))
            ),
            reverse=True,
        )
        is_end = [ids[-1] in stops or length == rules.max_new_tokens for _, ids in ranked]
        best = list(zip(ranked, is_end, strict=True))[: rules.width]
        ended += [(sum_ / length**rules.length_penalty, ids) for (sum_, ids), end in best if end]
        ended = sorted(ended, reverse=True)[: rules.width]
        live = [one for one, end in zip(ranked, is_end, strict=True) if not end][: rules.width]
        if live and len(ended) == rules.width:
            to_end = rules.early_stopping == "never" and rules.length_penalty > 0
            hope_length = rules.max_new_tokens if to_end else length
            hope = live[0][0] / hope_length**rules.length_penalty
            if rules.early_stopping is True or hope <= ended[-1][0]:
                break
    return ended


def random_model(seed: int, vocab_size: int, scale: float) -> LanguageModel:
    """Any function of the tokens so far is a language model."""

    def logprobs(ids: Ids) -> Logprobs:
        draw = random.Random(f"{seed} {ids}")
        logits = np.array([draw.gauss(0, scale) for _ in range(vocab_size)])
        return np.asarray(logits - np.log(np.exp(logits).sum()))

    return logprobs


rules_strategy = st.builds(
    BeamRules,
    width=st.integers(1, 5),
    max_new_tokens=st.integers(1, 9),
    length_penalty=st.sampled_from([-1.5, 0.0, 0.7, 1.0, 3.0]),
    early_stopping=st.sampled_from([True, False, "never"]),
    eos_token_ids=st.frozensets(st.integers(0, 11), max_size=3),
    stop_token_ids=st.frozensets(st.integers(0, 11), max_size=2),
)


@given(rules=rules_strategy, seed=st.integers(0, 999), scale=st.sampled_from([0.3, 2.0]))
@settings(max_examples=150, deadline=None)
def test_equals_a_search_over_all_tokens(rules: BeamRules, seed: int, scale: float) -> None:
    model = random_model(seed, 12, scale)
    expected = exhaustive_search(model, rules)
    found = search(model, rules)
    assert [hypothesis.beam.token_ids for hypothesis in found] == [ids for _, ids in expected]
    assert [hypothesis.worth for hypothesis in found] == pytest.approx([one for one, _ in expected])


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TinyModel]:
    """On one thread: small tensors on many are slower."""
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield write_tiny("llama", Path(tmp_path_factory.mktemp("beams")))
    torch.set_num_threads(num_threads)


PROMPT = [5, 99, 41, 7]


@pytest.fixture(scope="module")
def tiny_logprobs(tiny: TinyModel) -> LanguageModel:
    @cache
    def logprobs(ids: Ids) -> Logprobs:
        logits = hf_logits(tiny.hf, [*PROMPT, *ids])[-1].astype(np.float64)
        return np.asarray(logits - np.log(np.exp(logits).sum()))

    return logprobs


@pytest.mark.parametrize("early_stopping", [True, False, "never"])
@pytest.mark.parametrize("length_penalty", [-0.5, 1.0, 2.0])
@pytest.mark.parametrize(("width", "num_eos"), [(2, 1), (4, 12), (5, 0)])
def test_equals_transformers(
    tiny: TinyModel,
    tiny_logprobs: LanguageModel,
    width: int,
    num_eos: int,
    length_penalty: float,
    early_stopping: EarlyStopping,
) -> None:
    eos = list(range(3, 3 + 8 * num_eos, 8))
    with torch.no_grad():
        expected = tiny.hf.generate(
            torch.tensor([PROMPT]),
            attention_mask=torch.ones(1, 4, dtype=torch.long),
            num_beams=width,
            num_return_sequences=width,
            max_new_tokens=14,
            length_penalty=length_penalty,
            early_stopping=early_stopping,
            eos_token_id=eos or None,
            pad_token_id=0,
            do_sample=False,
            return_dict_in_generate=True,
            output_scores=True,
        )
    rules = replace(
        RULES,
        width=width,
        max_new_tokens=14,
        length_penalty=length_penalty,
        early_stopping=early_stopping,
        eos_token_ids=frozenset(eos),
    )
    found = search(tiny_logprobs, rules)
    num_all = expected.sequences.shape[1] - len(PROMPT)
    padded = [[*h.beam.token_ids, *[0] * (num_all - len(h.beam.token_ids))] for h in found]
    assert padded == expected.sequences[:, len(PROMPT) :].tolist()
    assert [h.worth for h in found] == pytest.approx(expected.sequences_scores.tolist(), abs=1e-4)


def advance(group: BeamGroup, *candidates: dict[int, float]) -> Sequence[Continuation]:
    return group.advance([Candidates(list(one), list(one.values())) for one in candidates])


def test_an_end_below_the_best_width_is_dropped() -> None:
    group = BeamGroup(RULES)
    assert advance(group, {5: -1.0, 6: -2.0, 0: -3.0}) == [(0, 5), (0, 6)]
    assert group.best(9) == []


def test_a_beam_ends_and_the_next_best_takes_its_place() -> None:
    group = BeamGroup(RULES)
    assert advance(group, {0: -1.0, 6: -2.0, 7: -3.0}) == [(0, 6), (0, 7)]
    assert [(h.beam.token_ids, h.worth) for h in group.best(9)] == [((0,), -1.0)]


def test_both_beams_may_go_on_from_one_parent() -> None:
    group = BeamGroup(RULES)
    advance(group, {5: -1.0, 6: -9.0, 7: -10.0})
    assert advance(group, {8: -1.0, 9: -2.0, 1: -3.0}, {8: -1.0, 9: -2.0, 1: -3.0}) == [
        (0, 8),
        (0, 9),
    ]


def test_equal_sums_keep_the_order_of_beams_and_candidates() -> None:
    group = BeamGroup(RULES)
    advance(group, {5: -1.0, 6: -1.0, 7: -1.0})
    assert advance(group, {8: -2.0, 9: -2.0, 1: -2.0}, {3: -2.0, 2: -2.0, 1: -2.0}) == [
        (0, 8),
        (0, 9),
    ]


@pytest.mark.parametrize(
    ("early_stopping", "is_over"), [(True, True), (False, True), ("never", False)]
)
def test_early_stopping_says_what_is_hoped_for(
    early_stopping: EarlyStopping, is_over: bool
) -> None:
    """Two ended beams worth -1 and -1.05; an open one of sum -2.2 and length 2, 4 at most."""
    group = BeamGroup(replace(RULES, early_stopping=early_stopping))
    advance(group, {0: -1.0, 5: -1.0, 6: -1.2})
    advance(group, {0: -1.1, 6: -1.2, 7: -1.3}, {1: -9.0, 2: -9.0, 3: -9.0})
    assert group.is_over == is_over
    assert [h.worth for h in group.best(2)] == pytest.approx([-1.0, -1.05])


def test_finishes_say_why() -> None:
    rules = replace(RULES, width=3, max_new_tokens=1, stop_token_ids=frozenset({7}))
    group = BeamGroup(rules)
    assert advance(group, {0: -1.0, 7: -2.0, 8: -3.0, 9: -4.0}) == []
    assert group.is_over
    assert [h.finish for h in group.best(3)] == [
        Finish("stop"),
        Finish("stop", 7),
        Finish("length"),
    ]


def test_rules_take_the_smaller_of_both_lengths_and_no_eos_if_ignored() -> None:
    params = SamplingParams(
        use_beam_search=True, n=3, max_tokens=50, ignore_eos=True, stop_token_ids=[4]
    )
    rules = BeamRules.of(params, frozenset({0}), 20)
    assert (rules.width, rules.max_new_tokens) == (3, 20)
    assert rules.eos_token_ids == frozenset()
    assert rules.stop_token_ids == {4}
