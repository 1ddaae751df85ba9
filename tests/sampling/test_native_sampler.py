"""The native sampler against the numpy reference, token for token, on every level."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from octavo.kernels import _native as native
from octavo.sampling.masks import num_mask_words
from tests.sampling import reference
from tests.sampling.reference import F32, F64, I32, Wishes

ROW = struct.Struct(native.SAMPLE_ROW_FORMAT)
LEVELS = native.isa_levels()
Results = tuple[I32, I32, F64, I32, F64, int]


def mask_words(allowed: frozenset[int], vocab_size: int) -> npt.NDArray[np.uint32]:
    bits = np.zeros(num_mask_words(vocab_size) * 32, np.uint8)
    bits[list(allowed)] = 1
    return np.packbits(bits, bitorder="little").view(np.uint32)


def run_native(
    logits: F32,
    rows: Sequence[Wishes],
    *,
    num_threads: int = 1,
    level: str = LEVELS[0],
    num_top: int = -1,
    target: int = -1,
) -> Results:
    """Row i of `logits` with wishes i."""
    packed, history, edit_ids, edit_values = [], list[int](), list[int](), list[float]()
    masks = [mask_words(x.allowed, logits.shape[1]) for x in rows if x.allowed is not None]
    num_masks = 0
    for i, wishes in enumerate(rows):
        begin, edits_begin = len(history), len(edit_ids)
        history += wishes.prompt + wishes.answer
        edit_ids += wishes.edits.keys()
        edit_values += wishes.edits.values()
        mask = -1 if wishes.allowed is None else num_masks
        num_masks += wishes.allowed is not None
        packed.append(
            ROW.pack(
                wishes.seed,
                wishes.position,
                wishes.top_p,
                wishes.min_p,
                wishes.temperature,
                wishes.repetition_penalty,
                wishes.presence_penalty,
                wishes.frequency_penalty,
                i,
                target,
                wishes.top_k,
                num_top,
                begin,
                begin + len(wishes.prompt),
                len(history),
                edits_begin,
                len(edit_ids),
                mask,
            )
        )
    sampler = native.Sampler(native.ThreadPool(num_threads), level, logits.shape[1])
    return sampler.sample(
        logits,
        b"".join(packed),
        np.array(history, np.int32),
        np.array(edit_ids, np.int32),
        np.array(edit_values, np.float32),
        np.array(masks, np.uint32).reshape(len(masks), num_mask_words(logits.shape[1])),
    )


def random_logits(seed: int, num_rows: int, vocab_size: int, scale: float = 3.0) -> F32:
    values = np.random.default_rng(seed).standard_normal((num_rows, vocab_size)) * scale
    return values.astype(np.float32)


@st.composite
def wishes_for(draw: st.DrawFn, vocab_size: int) -> Wishes:
    token = st.integers(0, vocab_size - 1)
    return Wishes(
        seed=draw(st.integers(0, 2**64 - 1)),
        position=draw(st.integers(0, 2**40)),
        temperature=draw(st.sampled_from([0.0, 1e-5, 0.1, 0.7, 1.0, 2.0, 50.0])),
        top_k=draw(st.sampled_from([-1, 0, 1, 2, 5, 50, 300, 100_000])),
        top_p=draw(st.sampled_from([1e-4, 0.1, 0.5, 0.9, 0.95, 0.999, 1.0])),
        min_p=draw(st.sampled_from([0.0, 1e-9, 0.01, 0.3, 1.0])),
        repetition_penalty=draw(st.sampled_from([1.0, 1.1, 0.5, 2.0])),
        presence_penalty=draw(st.sampled_from([0.0, 0.6, -1.5])),
        frequency_penalty=draw(st.sampled_from([0.0, 0.3, -2.0])),
        prompt=draw(st.lists(token, max_size=20)),
        answer=draw(st.lists(token, max_size=20)),
        edits=draw(
            st.dictionaries(token, st.sampled_from([-np.inf, -100.0, 2.5, 100.0]), max_size=5)
        ),
        allowed=draw(st.none() | st.frozensets(token, max_size=40)),
    )


@pytest.mark.parametrize("level", LEVELS)
@given(data=st.data())
@settings(max_examples=120, deadline=None)
def test_equals_the_reference_with_every_option_combined(level: str, data: st.DataObject) -> None:
    vocab_size = data.draw(st.sampled_from([1, 2, 17, 255, 256, 257, 1000, 5003]))
    scale = data.draw(st.sampled_from([0.0, 0.01, 3.0, 12.0, 100.0]))
    logits = random_logits(data.draw(st.integers(0, 2**32)), 3, vocab_size, scale)
    rows = [data.draw(wishes_for(vocab_size)) for _ in range(3)]
    token_ids = run_native(logits, rows, level=level)[0]
    assert token_ids.tolist() == [
        reference.choose(logits[i], wishes) for i, wishes in enumerate(rows)
    ]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("vocab_size", [1000, 1024, 40_000])
@pytest.mark.parametrize("temperature", [0.1, 0.125, 0.15, 0.2, 0.3])
def test_ties_at_the_edge_of_top_p_equal_the_reference(
    level: str, vocab_size: int, temperature: float
) -> None:
    """Four equal tokens, and a tail that decides whether two of them are half of the whole: it
    does as soon as it weighs anything, however small a sum of floats it would vanish in."""
    wishes = Wishes(
        temperature=temperature,
        top_p=0.5,
        presence_penalty=-1.5,
        frequency_penalty=-2.0,
        answer=[0, 256, 512, 768],
    )
    rows = [replace(wishes, seed=seed) for seed in range(24)]
    logits = np.zeros((len(rows), vocab_size), np.float32)
    token_ids = run_native(logits, rows, level=level)[0].tolist()
    assert token_ids == [reference.choose(logits[0], row) for row in rows]
    is_tail_weighed = temperature > 0.12  # e^-28 is one step, e^-35 none
    assert set(token_ids) == ({0, 256, 512} if is_tail_weighed else {0, 256})


def test_the_reference_weighs_as_exp_does() -> None:
    differences = -np.concatenate([[0], np.geomspace(1e-9, 29, 20_000)]).astype(np.float32)
    exact = np.exp(differences.astype(np.float64))
    np.testing.assert_allclose(reference.exponential(differences), exact, rtol=3e-7)
    steps = reference.weights(differences)
    np.testing.assert_allclose(steps * 2.0**-40, exact, rtol=3e-7, atol=2.0**-41)
    assert steps.max() == 2**40
    assert reference.weights(np.array([-28.3, -28.5, -29.5], np.float32)).tolist() == [1, 0, 0]


@given(data=st.data())
@settings(max_examples=100, deadline=None)
def test_awkward_logits_equal_the_reference(data: st.DataObject) -> None:
    values = st.sampled_from([np.nan, -np.inf, np.inf, 0.0, -0.0, 1.0, 3e38, -3e38, 1e-40, 7.5])
    row = data.draw(st.lists(values, min_size=1, max_size=40))
    logits = np.array([row], np.float32)
    wishes = data.draw(wishes_for(len(row)))
    wishes = replace(wishes, edits={k: v for k, v in wishes.edits.items() if v < 0})
    with np.errstate(all="ignore"):
        expected = reference.choose(logits[0], wishes)
    assert run_native(logits, [wishes])[0].tolist() == [expected]


@pytest.mark.parametrize("level", LEVELS)
def test_a_large_vocabulary_equals_the_reference(level: str) -> None:
    logits = random_logits(5, 8, 150_001)
    rows = [
        Wishes(seed=1),
        Wishes(seed=2, temperature=0.3),
        Wishes(seed=3, top_p=0.9),
        Wishes(seed=4, top_p=0.99, temperature=2.0),
        Wishes(seed=5, top_k=50),
        Wishes(seed=6, top_k=5000, top_p=0.8),
        Wishes(seed=7, min_p=0.001),
        Wishes(seed=8, min_p=0.001, top_p=0.95, top_k=700),
    ]
    token_ids = run_native(logits, rows, level=level)[0]
    assert token_ids.tolist() == [reference.choose(logits[i], rows[i]) for i in range(8)]


def test_levels_and_threads_return_the_same_bits() -> None:
    logits = random_logits(6, 16, 50_003)
    rows = [Wishes(seed=i, top_p=0.9 if i % 2 else 1.0, temperature=0.8) for i in range(16)]
    first = run_native(logits, rows, num_top=5)
    for level in LEVELS:
        for num_threads in (1, 2, 3):
            other = run_native(logits, rows, num_top=5, level=level, num_threads=num_threads)
            for a, b in zip(first[:5], other[:5], strict=True):
                assert np.array_equal(np.asarray(a), np.asarray(b))


@given(order=st.permutations(range(6)), count=st.integers(1, 6))
@settings(max_examples=30, deadline=None)
def test_a_row_does_not_depend_on_the_rest_of_the_batch(order: list[int], count: int) -> None:
    logits = random_logits(7, 6, 1000)
    rows = [
        Wishes(seed=11, position=i, answer=[1, 2, 2], frequency_penalty=float(i % 2), top_k=40 * i)
        for i in range(6)
    ]
    alone = [int(run_native(logits[i : i + 1], [rows[i]])[0][0]) for i in range(6)]
    chosen = order[:count]
    together = run_native(logits[chosen], [rows[i] for i in chosen], num_threads=2)[0]
    assert together.tolist() == [alone[i] for i in chosen]


def test_philox_gives_the_published_vectors() -> None:
    """Known answers of the authors' Random123 distribution."""
    full = 2**32 - 1
    assert reference.philox4x32_10((0, 0, 0, 0), (0, 0)) == (
        0x6627E8D5,
        0xE169C58D,
        0xBC57AC4C,
        0x9B00DBD8,
    )
    assert reference.philox4x32_10((full,) * 4, (full,) * 2) == (
        0x408F276D,
        0x41C83B0E,
        0xA20BC7C6,
        0x6D5451FD,
    )


def test_draws_follow_the_distribution() -> None:
    """Chi-square over 20,000 positions, fixed seed: 30 categories of expected count >= 5."""
    weights = np.arange(1, 31, dtype=np.float64)
    probabilities = weights / weights.sum()
    num_draws = 20_000
    logits = np.tile(np.log(weights).astype(np.float32), (num_draws, 1))
    rows = [Wishes(seed=1234, position=i) for i in range(num_draws)]
    counts = np.bincount(run_native(logits, rows)[0], minlength=30)
    expected = probabilities * num_draws
    chi_square = float(((counts - expected) ** 2 / expected).sum())
    assert 8.0 < chi_square < 58.0  # 29 degrees of freedom: outside this with probability 0.001


def test_seeds_and_positions_give_different_draws() -> None:
    logits = np.zeros((200, 10_000), np.float32)
    by_position = run_native(logits, [Wishes(seed=1, position=i) for i in range(200)])[0]
    by_seed = run_native(logits, [Wishes(seed=i, position=1) for i in range(200)])[0]
    assert len(set(by_position.tolist())) > 190
    assert len(set(by_seed.tolist())) > 190


def test_greedy_takes_the_lowest_id_among_ties() -> None:
    logits = np.zeros((1, 600), np.float32)
    logits[0, [599, 301, 300]] = 2.0
    assert run_native(logits, [Wishes(temperature=0.0)])[0].tolist() == [300]


@pytest.mark.parametrize("value", [np.nan, -np.inf])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_row_without_usable_logits_gives_token_0_and_is_counted(
    value: float, temperature: float
) -> None:
    logits = np.full((2, 300), value, np.float32)
    logits[1, 7] = 1.0
    result = run_native(logits, [Wishes(temperature=temperature)] * 2, num_top=2)
    assert result[0].tolist() == [0, 7]
    assert result[5] == 1
    assert result[3][0].tolist() == [-1, -1]
    assert result[2].tolist() == [-np.inf, 0.0]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("scale", [0.01, 3.0, 60.0])
def test_logprobs_are_those_of_the_raw_logits(level: str, scale: float) -> None:
    logits = random_logits(9, 4, 3001, scale)
    rows = [Wishes(temperature=0.5, answer=[3], repetition_penalty=2.0, top_k=7)] * 4
    token_ids, ranks, logprobs, top_ids, top_logprobs, _ = run_native(
        logits, rows, num_top=20, level=level
    )
    for i in range(4):
        expected = reference.log_softmax(logits[i])
        order = reference.falling_order(logits[i])[:20]
        assert ranks[i] == reference.rank(logits[i], int(token_ids[i]))
        assert top_ids[i].tolist() == order.tolist()
        np.testing.assert_allclose(logprobs[i], expected[token_ids[i]], rtol=0, atol=2e-6)
        np.testing.assert_allclose(top_logprobs[i], expected[order], rtol=0, atol=2e-6)


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_scores_and_ranks_of_given_tokens_equal_the_reference(data: st.DataObject) -> None:
    values = st.sampled_from([np.nan, -np.inf, 0.0, -0.0, 1.0, 2.0, -7.25])
    row = data.draw(st.lists(values, min_size=1, max_size=600))
    target = data.draw(st.integers(0, len(row) - 1))
    logits = np.array([row], np.float32)
    token_ids, ranks, logprobs, *_ = run_native(logits, [Wishes()], num_top=0, target=target)
    with np.errstate(all="ignore"):
        expected = reference.log_softmax(logits[0])[target]
    assert token_ids.tolist() == [target]
    assert ranks.tolist() == [reference.rank(logits[0], target)]
    np.testing.assert_allclose(logprobs[0], expected, rtol=0, atol=2e-6)


def test_rows_may_stand_apart_in_memory() -> None:
    wide = random_logits(10, 3, 512)
    rows = [Wishes(seed=i) for i in range(3)]
    apart = run_native(wide[:, :500], rows)[0]
    assert apart.tolist() == run_native(np.ascontiguousarray(wide[:, :500]), rows)[0].tolist()


@pytest.mark.parametrize(
    ("wishes", "message"),
    [
        (Wishes(prompt=[100]), "history holds token 100 of a vocabulary of 100"),
        (Wishes(edits={-1: 0.0}), "edit_ids holds token -1"),
        (Wishes(temperature=float("nan")), "temperature"),
        (Wishes(top_p=0.0), "top_p"),
    ],
)
def test_input_outside_the_vocabulary_or_range_is_refused(wishes: Wishes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run_native(random_logits(0, 1, 100), [wishes])


def test_rows_outside_the_logits_are_refused() -> None:
    with pytest.raises(ValueError, match=r"logit row \[1, 2\) of 1"):
        run_native(random_logits(0, 1, 100), [Wishes(), Wishes()])
    with pytest.raises(ValueError, match="columns"):
        native.Sampler(native.ThreadPool(1), LEVELS[0], 99).sample(
            random_logits(0, 1, 100),
            b"",
            np.empty(0, np.int32),
            np.empty(0, np.int32),
            np.empty(0, np.float32),
            np.empty((0, 4), np.uint32),
        )


@pytest.mark.parametrize("level", LEVELS)
def test_only_tokens_of_the_mask_are_drawn_and_logprobs_stay_those_of_the_raw_logits(
    level: str,
) -> None:
    logits = random_logits(13, 40, 5003)
    allowed = frozenset({0, 31, 32, 63, 64, 4999, 5002})
    rows = [Wishes(seed=i, temperature=5.0, allowed=allowed) for i in range(40)]
    token_ids, ranks, logprobs, top_ids, _, _ = run_native(logits, rows, num_top=3, level=level)
    assert set(token_ids.tolist()) <= allowed
    assert len(set(token_ids.tolist())) > 4
    for i, token in enumerate(token_ids.tolist()):
        assert ranks[i] == reference.rank(logits[i], token)
        assert top_ids[i].tolist() == reference.falling_order(logits[i])[:3].tolist()
        expected = reference.log_softmax(logits[i])[token]
        np.testing.assert_allclose(logprobs[i], expected, rtol=0, atol=2e-6)


def test_rows_have_masks_of_their_own() -> None:
    logits = np.zeros((4, 100), np.float32)
    logits[:, 50] = 9.0
    greedy = Wishes(temperature=0.0)
    rows = [
        replace(greedy, allowed=frozenset({7})),
        greedy,
        replace(greedy, allowed=frozenset({99, 64})),
        replace(greedy, allowed=frozenset({3}), edits={50: 100.0}),
    ]
    assert run_native(logits, rows)[0].tolist() == [7, 50, 64, 3]


def test_an_empty_mask_gives_token_0_and_is_counted() -> None:
    rows = [Wishes(allowed=frozenset())]
    result = run_native(random_logits(0, 1, 100), rows)
    assert (result[0].tolist(), result[5]) == ([0], 1)


@pytest.mark.parametrize(
    ("row", "shape", "message"),
    [
        (1, (1, 4), r"mask \[1, 2\) of 1"),
        (-2, (1, 4), r"mask \[-2, -1\) of 1"),
        (0, (1, 3), "masks have 3 words; 4 are allowed"),
    ],
)
def test_masks_that_are_not_there_are_refused(
    row: int, shape: tuple[int, int], message: str
) -> None:
    packed = ROW.pack(0, 0, 1, 0, 0, 1, 0, 0, 0, -1, 0, -1, 0, 0, 0, 0, 0, row)
    no_ids, no_values = np.empty(0, np.int32), np.empty(0, np.float32)
    sampler = native.Sampler(native.ThreadPool(1), LEVELS[0], 100)
    with pytest.raises(ValueError, match=message):
        sampler.sample(
            random_logits(0, 1, 100), packed, no_ids, no_ids, no_values, np.zeros(shape, np.uint32)
        )


@pytest.mark.parametrize("scale", [0.0, 0.5, 2.0])
@pytest.mark.parametrize("top_p", [0.3, 0.9, 0.999])
def test_flat_rows_are_cut_by_top_p_as_by_sorting(scale: float, top_p: float) -> None:
    """So many tokens are kept that they are found by bisection; with scale 0 all are equal."""
    logits = random_logits(11, 6, 30_011, scale)
    rows = [Wishes(seed=seed, top_p=top_p, temperature=1.3) for seed in range(6)]
    token_ids = run_native(logits, rows)[0]
    assert token_ids.tolist() == [reference.choose(logits[i], rows[i]) for i in range(6)]


CANDIDATES = -2


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("vocab_size", [3001, 300])
def test_candidates_are_the_most_probable_tokens(level: str, vocab_size: int) -> None:
    """More of them than the API reports as alternatives."""
    logits = random_logits(12, 4, vocab_size)
    token_ids, _, logprobs, top_ids, top_logprobs, _ = run_native(
        logits, [Wishes()] * 4, num_top=70, level=level, target=CANDIDATES
    )
    for i in range(4):
        order = reference.falling_order(logits[i])[:70]
        assert top_ids[i].tolist() == order.tolist()
        expected = reference.log_softmax(logits[i])[order]
        np.testing.assert_allclose(top_logprobs[i], expected, rtol=0, atol=2e-6)
    assert token_ids.tolist() == top_ids[:, 0].tolist()
    assert logprobs.tolist() == top_logprobs[:, 0].tolist()


@pytest.mark.parametrize("level", LEVELS)
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_bans_and_penalties_act_on_the_scores_of_candidates(
    level: str, data: st.DataObject
) -> None:
    vocab_size = data.draw(st.sampled_from([1, 17, 257, 1000]))
    logits = random_logits(data.draw(st.integers(0, 2**32)), 1, vocab_size)
    wishes = data.draw(wishes_for(vocab_size))
    _, _, _, top_ids, top_logprobs, num_undefined = run_native(
        logits, [wishes], num_top=30, level=level, target=CANDIDATES
    )
    scores = reference.candidate_scores(logits[0], wishes)
    expected = np.sort(scores[scores > -np.inf])[::-1][:30]
    if num_undefined:  # all are banned
        assert (top_ids[0, 0], len(expected)) == (0, 0)
        return
    ids = top_ids[0][top_ids[0] >= 0]
    assert len(set(ids.tolist())) == len(ids) == len(expected)
    np.testing.assert_allclose(top_logprobs[0, : len(ids)], scores[ids], rtol=1e-6, atol=2e-6)
    np.testing.assert_allclose(scores[ids], expected, rtol=1e-6, atol=2e-6)


@pytest.mark.parametrize("edits", [{}, {1: 2.0}])
def test_a_beam_without_usable_logits_has_token_0_of_no_probability(
    edits: dict[int, float],
) -> None:
    logits = np.full((1, 300), np.nan, np.float32)
    token_ids, _, _, top_ids, top_logprobs, num_undefined = run_native(
        logits, [Wishes(edits=edits)], num_top=2, target=CANDIDATES
    )
    assert num_undefined == 1
    assert token_ids.tolist() == [0]
    assert top_ids.tolist() == [[0, -1]]
    assert top_logprobs.tolist() == [[-np.inf, -np.inf]]


def test_a_target_that_is_no_token_is_refused() -> None:
    with pytest.raises(ValueError, match="target holds token -3"):
        run_native(random_logits(0, 1, 100), [Wishes()], target=-3)
    with pytest.raises(ValueError, match="candidates need num_top"):
        run_native(random_logits(0, 1, 100), [Wishes()], target=CANDIDATES, num_top=0)
