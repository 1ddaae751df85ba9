"""How sequences' parameters become native rows, and results come back in order."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from octavo.core.request import EngineRequest
from octavo.core.sampling_params import SamplingParams
from octavo.core.schedule import ScheduledSequence, ScheduledStep, SequenceResult
from octavo.core.sequence import Sequence
from octavo.kernels import _native as native
from octavo.sampling.masks import TokenMasks, num_mask_words
from octavo.sampling.sampler import Sampler
from tests.sampling import filter_reference, reference
from tests.sampling.filter_reference import Filters
from tests.sampling.reference import F32, Wishes

VOCAB_SIZE = 500
STOPS = frozenset({2, 7})


def new_sampler() -> Sampler:
    return Sampler(VOCAB_SIZE, native.ThreadPool(2))


def new_sequence(
    params: SamplingParams, *, name: str = "a", prompt: int = 5, answer: int = 3, seed: int = 9
) -> Sequence:
    tokens = [(17 * i * i + 3) % VOCAB_SIZE for i in range(prompt + answer)]
    request = EngineRequest(
        request_id=name,
        prompt_token_ids=tokens[:prompt],
        sampling_params=params,
        arrival_time=0.0,
        dry_breaker_ids=[[3], [20, 71]],
    )
    return Sequence(request, 0, tokens, prompt, seed)


def decode(sequence: Sequence) -> ScheduledSequence:
    return ScheduledSequence(sequence, sequence.num_tokens - 1, 1, samples=True)


def random_logits(num_rows: int) -> F32:
    values = np.random.default_rng(3).standard_normal((num_rows, VOCAB_SIZE)) * 4
    return values.astype(np.float32)


def sample(logits: F32, *scheduled: ScheduledSequence) -> list[SequenceResult]:
    return new_sampler().sample(logits, ScheduledStep(list(scheduled)), STOPS)


def wishes_of(sequence: Sequence) -> Wishes:
    """The same request, as the reference takes it."""
    params, n = sequence.params, sequence.num_prompt_tokens
    bans = STOPS | set(params.stop_token_ids or ())
    short = sequence.num_output_tokens < params.min_tokens
    allowed = params.allowed_token_ids
    return Wishes(
        seed=sequence.seed % 2**64,
        position=sequence.num_tokens,
        temperature=0.0 if params.temperature < 1e-5 else params.temperature,
        top_k=params.top_k,
        top_p=params.top_p,
        min_p=params.min_p,
        repetition_penalty=params.repetition_penalty,
        presence_penalty=params.presence_penalty,
        frequency_penalty=params.frequency_penalty,
        prompt=sequence.token_ids[:n],
        answer=sequence.token_ids[n:],
        edits=(params.logit_bias or {}) | (dict.fromkeys(bans, -np.inf) if short else {}),
        allowed=None if allowed is None else frozenset(allowed),
    )


def filters_of(sequence: Sequence) -> Filters:
    params = sequence.params
    if params.is_greedy:
        params = structs.replace(
            params, top_n_sigma=-1.0, typical_p=1.0, xtc_probability=0.0, mirostat=0
        )
    return Filters(
        top_n_sigma=params.top_n_sigma,
        dynatemp_range=params.dynatemp_range,
        dynatemp_exponent=params.dynatemp_exponent,
        typical_p=params.typical_p,
        xtc_probability=params.xtc_probability,
        xtc_threshold=params.xtc_threshold,
        mirostat_mu=2 * params.mirostat_tau if params.mirostat else np.inf,
        dry_multiplier=params.dry_multiplier,
        dry_base=params.dry_base,
        dry_allowed_length=params.dry_allowed_length,
        dry_last_n=params.dry_penalty_last_n,
        dry_breakers=sequence.request.dry_breaker_ids,
    )


params_strategy = st.builds(
    SamplingParams,
    temperature=st.sampled_from([0.0, 1e-6, 1e-4, 0.8, 3.0]),
    top_p=st.sampled_from([0.3, 0.95, 1.0]),
    top_k=st.sampled_from([-1, 0, 1, 40]),
    min_p=st.sampled_from([0.0, 0.05]),
    presence_penalty=st.sampled_from([0.0, 1.0]),
    frequency_penalty=st.sampled_from([0.0, -0.5]),
    repetition_penalty=st.sampled_from([1.0, 1.3]),
    logit_bias=st.none() | st.dictionaries(st.integers(0, 499), st.floats(-100, 100), max_size=4),
    min_tokens=st.integers(0, 6),
    stop_token_ids=st.none() | st.just([11, 12]),
    logprobs=st.none() | st.integers(0, 3),
    allowed_token_ids=st.none() | st.lists(st.integers(0, 499), min_size=1, max_size=30),
    top_n_sigma=st.sampled_from([-1.0, 1.0]),
    typical_p=st.sampled_from([1.0, 0.7]),
    xtc_probability=st.sampled_from([0.0, 0.5]),
    mirostat=st.sampled_from([0, 2]),
    mirostat_tau=st.sampled_from([1.0, 3.0]),
    dry_multiplier=st.sampled_from([0.0, 20.0]),
    dry_allowed_length=st.sampled_from([1, 2]),
    dry_penalty_last_n=st.sampled_from([-1, 0, 4]),
)


@given(
    all_params=st.lists(params_strategy, min_size=1, max_size=5),
    seed=st.integers(-(2**63), 2**64 - 1),
)
@settings(max_examples=100, deadline=None)
def test_every_row_equals_the_reference(all_params: list[SamplingParams], seed: int) -> None:
    sequences = [
        new_sequence(params, name=str(i), seed=seed) for i, params in enumerate(all_params)
    ]
    logits = random_logits(len(sequences))
    results = sample(logits, *map(decode, sequences))
    for row, sequence, result in zip(logits, sequences, results, strict=True):
        filters = filters_of(sequence)
        token_id, surprise = filter_reference.choose(row, wishes_of(sequence), filters)
        assert result.token_id == token_id
        assert (result.mirostat_mu is None) == (filters.mirostat_mu == np.inf)
        if result.mirostat_mu is not None:
            tau = sequence.params.mirostat_tau
            assert result.mirostat_mu == pytest.approx(2 * tau - 0.1 * (surprise - tau))
        assert (result.logprobs is None) == (sequence.params.logprobs is None)
        if result.logprobs is not None:
            assert result.logprobs.token_id == result.token_id
            assert len(result.logprobs.top_token_ids) == sequence.params.logprobs


@given(num_steps=st.integers(1, 30), skipped=st.sets(st.integers(0, 29)))
@settings(max_examples=20, deadline=None)
def test_penalties_follow_a_growing_sequence(num_steps: int, skipped: set[int]) -> None:
    """Also when the sequence is left out of some steps, and when its request id is used again."""
    sampler = new_sampler()
    params = SamplingParams(temperature=0.0, repetition_penalty=1.5, frequency_penalty=0.7)
    logits = random_logits(1)
    for _ in range(2):
        sequence = new_sequence(params, prompt=3, answer=0)
        for step in range(num_steps):
            present = step not in skipped
            rows = [decode(sequence)] if present else []
            results = sampler.sample(logits[: len(rows)], ScheduledStep(rows), STOPS)
            expected = reference.choose(logits[0], wishes_of(sequence))
            assert [r.token_id for r in results] == [expected] * present
            sequence.token_ids.append(expected)


def test_penalties_follow_a_beam_that_moves_into_another_sequence() -> None:
    sampler = new_sampler()
    params = SamplingParams(use_beam_search=True, n=2, repetition_penalty=2.0)
    logits = random_logits(1)
    sequence = new_sequence(params)
    for answer in ([5, 6, 7], [8, 9, 10]):
        sequence.token_ids = [*sequence.token_ids[:5], *answer]
        (result,) = sampler.sample(logits, ScheduledStep([decode(sequence)]), STOPS)
        scores = reference.candidate_scores(logits[0], wishes_of(sequence))
        assert result.candidates is not None
        assert result.candidates.token_ids == reference.falling_order(scores)[:4].tolist()


def test_stop_tokens_are_kept_out_until_min_tokens() -> None:
    logits = np.zeros((1, VOCAB_SIZE), np.float32)
    logits[0, [2, 11, 40]] = [9.0, 8.0, 7.0]
    params = SamplingParams(temperature=0.0, min_tokens=4, stop_token_ids=[11])
    short, long = new_sequence(params, answer=3), new_sequence(params, answer=4)
    assert sample(logits, decode(short))[0].token_id == 40
    assert sample(logits, decode(long))[0].token_id == 2


def test_stop_tokens_outside_the_vocabulary_do_no_harm() -> None:
    params = SamplingParams(temperature=0.0, min_tokens=4, stop_token_ids=[VOCAB_SIZE, 2**31 - 1])
    assert sample(random_logits(1), decode(new_sequence(params)))[0].token_id is not None


def test_prompt_logprobs_belong_to_the_tokens_that_follow() -> None:
    sequence = new_sequence(SamplingParams(prompt_logprobs=2, logprobs=0), prompt=6, answer=0)
    logits = random_logits(6)
    scheduled = ScheduledSequence(sequence, 0, 6, samples=True, wants_prompt_logprobs=True)
    (result,) = sample(logits, scheduled)
    assert result.prompt_logprobs is not None
    assert len(result.prompt_logprobs) == 5
    for i, entry in enumerate(result.prompt_logprobs):
        token = sequence.token_ids[i + 1]
        expected = reference.log_softmax(logits[i])
        assert entry.token_id == token
        assert entry.rank == reference.rank(logits[i], token)
        assert entry.top_token_ids == reference.falling_order(logits[i])[:2].tolist()
        np.testing.assert_allclose(entry.logprob, expected[token], rtol=0, atol=2e-6)
    assert result.token_id == reference.choose(logits[5], wishes_of(sequence))


@pytest.mark.parametrize("chunk", [1, 2, 4, 7])
def test_prompt_logprobs_do_not_depend_on_the_chunking(chunk: int) -> None:
    params = SamplingParams(prompt_logprobs=3, temperature=0.0)
    sequence = new_sequence(params, prompt=7, answer=0)
    logits = random_logits(7)
    whole = sample(logits, ScheduledSequence(sequence, 0, 7, True, wants_prompt_logprobs=True))
    entries, token_ids = [], []
    for start in range(0, 7, chunk):
        count = min(chunk, 7 - start)
        last = start + count == 7
        part = ScheduledSequence(sequence, start, count, last, wants_prompt_logprobs=True)
        (result,) = sample(logits[start : start + count], part)
        entries += result.prompt_logprobs or []
        token_ids.append(result.token_id)
    assert entries == whole[0].prompt_logprobs
    assert token_ids == [None] * (len(token_ids) - 1) + [whole[0].token_id]


def test_rows_of_a_mixed_step_are_taken_in_order() -> None:
    """A decode, a chunk without logits, a scored chunk, and a prompt's end."""
    plain = SamplingParams(temperature=0.0)
    scored = SamplingParams(prompt_logprobs=0)
    parts = [
        decode(new_sequence(plain, name="a")),
        ScheduledSequence(new_sequence(plain, name="b", prompt=9, answer=0), 0, 4, False),
        ScheduledSequence(new_sequence(scored, name="c", prompt=9, answer=0), 2, 3, False, True),
        ScheduledSequence(new_sequence(plain, name="d", prompt=9, answer=0), 4, 5, True),
    ]
    logits = random_logits(5)
    results = sample(logits, *parts)
    assert [r.token_id for r in results] == [logits[0].argmax(), None, None, logits[4].argmax()]
    assert [r.prompt_logprobs is None for r in results] == [True, True, False, True]
    assert results[2].prompt_logprobs is not None
    assert [e.token_id for e in results[2].prompt_logprobs] == parts[2].sequence.token_ids[3:6]


def test_recomputed_answer_tokens_have_no_prompt_logprobs() -> None:
    """After a preemption the answer is computed again with the prompt."""
    sequence = new_sequence(SamplingParams(prompt_logprobs=0), prompt=3, answer=4)
    scheduled = ScheduledSequence(sequence, 0, 7, samples=True, wants_prompt_logprobs=True)
    (result,) = sample(random_logits(7), scheduled)
    assert len(result.prompt_logprobs or []) == 2


def test_a_seed_fixes_the_draw_whatever_the_batch() -> None:
    sequence = new_sequence(SamplingParams(temperature=2.0), seed=77)
    others = [new_sequence(SamplingParams(temperature=1.0), name=str(i)) for i in range(20)]
    logits = random_logits(1)
    alone = sample(logits, decode(sequence))[0]
    crowd = sample(np.repeat(logits, 21, axis=0), *map(decode, others), decode(sequence))
    assert crowd[-1] == alone
    elsewhere = replace(sequence, seed=78)
    draws = {sample(logits, decode(s))[0].token_id for s in (sequence, elsewhere)}
    assert len(draws) == 2


def test_rows_without_usable_logits_are_counted_step_by_step() -> None:
    sampler = new_sampler()
    logits = np.full((1, VOCAB_SIZE), np.nan, np.float32)
    step = ScheduledStep([decode(new_sequence(SamplingParams(logprobs=1)))])
    (result,) = sampler.sample(logits, step, STOPS)
    assert result.token_id == 0
    assert sampler.num_undefined_rows == 1
    sampler.sample(np.zeros((1, VOCAB_SIZE), np.float32), step, STOPS)
    assert sampler.num_undefined_rows == 0


def test_a_beam_gets_candidates_whatever_others_ask_for() -> None:
    """Four beams and three ids that end one: the best seven tokens."""
    params = SamplingParams(use_beam_search=True, n=4, stop_token_ids=[7, 11], min_tokens=9)
    beam = new_sequence(params)
    other = new_sequence(SamplingParams(logprobs=20), name="b")
    wide = new_sequence(SamplingParams(use_beam_search=True, beam_width=30), name="c")
    logits = random_logits(3)
    alone = sample(logits[:1], decode(beam))[0]
    assert sample(logits, decode(beam), decode(other), decode(wide))[0] == alone
    assert alone.token_id is None
    assert alone.candidates is not None
    scores = reference.candidate_scores(logits[0], wishes_of(beam))
    order = reference.falling_order(scores)[:7]
    assert alone.candidates.token_ids == order.tolist()
    np.testing.assert_allclose(alone.candidates.logprobs, scores[order], rtol=0, atol=2e-6)


def test_a_beam_that_ignores_the_end_of_text_needs_no_more_candidates_than_beams() -> None:
    beam = new_sequence(SamplingParams(use_beam_search=True, beam_width=5, ignore_eos=True))
    (result,) = sample(random_logits(1), decode(beam))
    assert result.candidates is not None
    assert len(result.candidates.token_ids) == 5


def test_a_mask_reaches_the_row_of_its_sequence_only() -> None:
    masked, free = (
        new_sequence(SamplingParams(temperature=0.0)),
        new_sequence(SamplingParams(temperature=0.0), name="b"),
    )
    words = np.zeros((1, num_mask_words(VOCAB_SIZE)), np.uint32)
    words[0, 300 // 32] = 1 << 300 % 32
    step = ScheduledStep([decode(free), decode(masked)])
    masks = TokenMasks(words, {masked.key: 0})
    logits = random_logits(2)
    results = new_sampler().sample(logits, step, STOPS, masks)
    assert [result.token_id for result in results] == [int(logits[0].argmax()), 300]


def test_mirostat_goes_on_from_what_the_sequence_has_come_to() -> None:
    """mu 0.5 bits leave the most probable token alone, whose surprise is 0."""
    sequence = new_sequence(SamplingParams(mirostat=2, mirostat_tau=3.0, mirostat_eta=0.2))
    sequence.mirostat_mu = 0.5
    logits = random_logits(1)
    (result,) = sample(logits, decode(sequence))
    assert result.token_id == logits[0].argmax()
    assert result.mirostat_mu == pytest.approx(1.1)
    greedy = new_sequence(SamplingParams(mirostat=2, temperature=0.0))
    assert sample(logits, decode(greedy))[0].mirostat_mu is None


def test_a_bad_word_is_not_completed() -> None:
    """The last of its tokens only, and only when the answer (not the prompt) ends with the rest."""
    logits = np.zeros((1, VOCAB_SIZE), np.float32)
    logits[0, [40, 41, 42]] = [9.0, 8.0, 7.0]
    sequence = new_sequence(SamplingParams(temperature=0.0), prompt=5, answer=2)
    tokens = sequence.token_ids

    def drawn(*bad_words: list[int]) -> int | None:
        sequence.request = structs.replace(sequence.request, bad_word_ids=list(bad_words))
        return sample(logits, decode(sequence))[0].token_id

    assert drawn() == 40
    assert drawn([40]) == 41
    assert drawn([40], [tokens[6], 41]) == 42
    assert drawn([tokens[5], tokens[6], 40]) == 41
    assert drawn([tokens[5], 40]) == 40
    assert drawn([tokens[4], tokens[5], tokens[6], 40]) == 40


def test_allowed_tokens_and_a_mask_hold_together() -> None:
    masked = new_sequence(SamplingParams(temperature=0.0, allowed_token_ids=[3, 4, 5]), name="a")
    other = new_sequence(SamplingParams(temperature=0.0), name="b")
    words = np.zeros((2, num_mask_words(VOCAB_SIZE)), np.uint32)
    words[:, 0] = [1 << 4 | 1 << 9, 1 << 7]
    masks = TokenMasks(words, {masked.key: 0, other.key: 1})
    logits = np.zeros((2, VOCAB_SIZE), np.float32)
    logits[:, 9] = 5.0
    step = ScheduledStep([decode(masked), decode(other)])
    results = new_sampler().sample(logits, step, STOPS, masks)
    assert [result.token_id for result in results] == [4, 7]
    assert words[:, 0].tolist() == [1 << 4 | 1 << 9, 1 << 7]
