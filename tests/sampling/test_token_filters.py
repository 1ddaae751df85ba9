"""The native filters and DRY against the numpy reference, token for token, on every level."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from octavo.kernels import _native as native
from octavo.sampling.masks import num_mask_words
from tests.sampling import filter_reference
from tests.sampling.filter_reference import Filters
from tests.sampling.reference import F32, I32, Wishes
from tests.sampling.test_native_sampler import LEVELS, random_logits

ROW = struct.Struct(native.SAMPLE_ROW_FORMAT)
FILTER_ROW = struct.Struct(native.FILTER_ROW_FORMAT)
NO_IDS, NO_VALUES = np.empty(0, np.int32), np.empty(0, np.float32)
Asked = tuple[Wishes, Filters]


def no_masks(vocab_size: int) -> npt.NDArray[np.uint32]:
    return np.empty((0, num_mask_words(vocab_size)), np.uint32)


def packed_filters(asked: Sequence[Asked]) -> native.Filters:
    rows, ids, history_begin = [], list[int](), 0
    for index, (wishes, filters) in enumerate(asked):
        history_end = history_begin + len(wishes.prompt) + len(wishes.answer)
        dry_begin = history_begin
        if filters.dry_last_n >= 0:
            dry_begin = max(dry_begin, history_end - filters.dry_last_n)
        history_begin = history_end
        breakers_begin = len(ids)
        ids += chain.from_iterable([*breaker, -1] for breaker in sorted(filters.dry_breakers))
        rows.append(
            FILTER_ROW.pack(
                filters.top_n_sigma,
                filters.dynatemp_range,
                filters.dynatemp_exponent,
                filters.typical_p,
                filters.xtc_probability,
                filters.xtc_threshold,
                filters.mirostat_mu,
                filters.dry_multiplier,
                filters.dry_base,
                filters.dry_allowed_length,
                index,
                dry_begin,
                breakers_begin,
                len(ids),
            )
        )
    return native.Filters(b"".join(rows), np.array(ids, np.int32))


def packed_row(wishes: Wishes, index: int, history_begin: int) -> bytes:
    output_begin = history_begin + len(wishes.prompt)
    return ROW.pack(
        wishes.seed,
        wishes.position,
        wishes.top_p,
        wishes.min_p,
        wishes.temperature,
        wishes.repetition_penalty,
        wishes.presence_penalty,
        wishes.frequency_penalty,
        index,
        -1,
        wishes.top_k,
        -1,
        history_begin,
        output_begin,
        output_begin + len(wishes.answer),
        0,
        0,
        -1,
    )


def run_native(
    logits: F32, asked: Sequence[Asked], *, level: str = LEVELS[0], num_threads: int = 1
) -> tuple[list[int], list[float], int]:
    """Tokens, surprises, and how many rows had no usable logit."""
    rows, history = [], list[int]()
    for index, (wishes, _) in enumerate(asked):
        rows.append(packed_row(wishes, index, len(history)))
        history += wishes.prompt + wishes.answer
    filters = packed_filters(asked)
    sampler = native.Sampler(native.ThreadPool(num_threads), level, logits.shape[1])
    token_history: I32 = np.array(history, np.int32)
    token_ids, *_, num_undefined = sampler.sample(
        logits,
        b"".join(rows),
        token_history,
        NO_IDS,
        NO_VALUES,
        no_masks(logits.shape[1]),
        filters=filters,
    )
    return token_ids.tolist(), list(filters.surprises), num_undefined


def assert_equals_reference(logits: F32, asked: Sequence[Asked], level: str) -> None:
    token_ids, surprises, _ = run_native(logits, asked, level=level)
    with np.errstate(all="ignore"):
        expected = [
            filter_reference.choose(row, wishes, filters)
            for row, (wishes, filters) in zip(logits, asked, strict=True)
        ]
    assert token_ids == [token for token, _ in expected]
    np.testing.assert_allclose(surprises, [s for _, s in expected], rtol=1e-9, atol=1e-9)


wishes_strategy = st.builds(
    Wishes,
    seed=st.integers(0, 2**64 - 1),
    position=st.integers(0, 2**40),
    temperature=st.sampled_from([0.0, 1e-5, 0.1, 0.7, 1.0, 2.0, 50.0]),
    top_k=st.sampled_from([0, 0, 1, 5, 300]),
    top_p=st.sampled_from([1.0, 1.0, 0.1, 0.9]),
    min_p=st.sampled_from([0.0, 0.0, 0.01, 1.0]),
    repetition_penalty=st.sampled_from([1.0, 1.3]),
)
filters_strategy = st.builds(
    Filters,
    top_n_sigma=st.sampled_from([-1.0, 0.0, 0.5, 1.0, 3.0]),
    dynatemp_range=st.sampled_from([0.0, 0.0, 0.5, 3.0]),
    dynatemp_exponent=st.sampled_from([1.0, 0.3, 2.0]),
    typical_p=st.sampled_from([1.0, 1.0, 0.05, 0.5, 0.95]),
    xtc_probability=st.sampled_from([0.0, 0.5, 1.0]),
    xtc_threshold=st.sampled_from([0.0, 0.01, 0.1, 0.5, 0.9]),
    mirostat_mu=st.sampled_from([np.inf, np.inf, -3.0, 0.0, 1.0, 2.5, 8.0, 30.0]),
    dry_multiplier=st.sampled_from([0.0, 0.8, 1e30]),
    dry_base=st.sampled_from([1.0, 1.75, 100.0]),
    dry_allowed_length=st.integers(1, 4),
    dry_last_n=st.sampled_from([-1, 0, 1, 5, 20]),
)


@st.composite
def asked_for(draw: st.DrawFn, vocab_size: int) -> Asked:
    """Histories of few different tokens, so that they repeat."""
    token = st.integers(0, vocab_size - 1)
    few = st.sampled_from(draw(st.lists(token, min_size=1, max_size=4)))
    wishes = replace(
        draw(wishes_strategy),
        prompt=draw(st.lists(few, max_size=30)),
        answer=draw(st.lists(few, max_size=30)),
    )
    return wishes, replace(
        draw(filters_strategy),
        dry_breakers=draw(st.lists(st.lists(few, min_size=1, max_size=3), max_size=4)),
    )


@pytest.mark.parametrize("level", LEVELS)
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_equals_the_reference_with_every_filter_combined(level: str, data: st.DataObject) -> None:
    vocab_size = data.draw(st.sampled_from([1, 2, 17, 256, 257, 1000, 5000]))
    scale = data.draw(st.sampled_from([0.0, 0.01, 3.0, 12.0, 100.0]))
    logits = random_logits(data.draw(st.integers(0, 2**32)), 2, vocab_size, scale)
    assert_equals_reference(logits, [data.draw(asked_for(vocab_size)) for _ in range(2)], level)


@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_awkward_logits_equal_the_reference(data: st.DataObject) -> None:
    values = st.sampled_from([np.nan, -np.inf, np.inf, 0.0, -0.0, 1.0, 3e38, -3e38, 1e-40, 7.5])
    row = data.draw(st.lists(values, min_size=1, max_size=60))
    asked = data.draw(asked_for(len(row)))
    assert_equals_reference(np.array([row], np.float32), [asked], LEVELS[0])


@given(data=st.data())
@settings(max_examples=100, deadline=None)
def test_ties_equal_the_reference(data: st.DataObject) -> None:
    row = data.draw(st.lists(st.sampled_from([1.0, 2.0, 2.5]), min_size=1, max_size=300))
    asked = data.draw(asked_for(len(row)))
    assert_equals_reference(np.array([row], np.float32), [asked], LEVELS[0])


def test_every_draw_of_a_row_comes_from_the_kept_tokens() -> None:
    """400 positions reach every one of the few tokens that each filter leaves."""
    logits = np.tile(random_logits(4, 1, 60), (400, 1))
    for filters in (
        Filters(top_n_sigma=1.0),
        Filters(typical_p=0.6),
        Filters(xtc_probability=1.0, xtc_threshold=0.08),
        Filters(mirostat_mu=4.0),
        Filters(dynatemp_range=0.9, dynatemp_exponent=3.0),
    ):
        rows = [Wishes(seed=8, position=i, min_p=0.05) for i in range(400)]
        kept = filter_reference.kept_tokens(logits[0], rows[0], filters)
        assert kept is not None
        drawn = run_native(logits, [(wishes, filters) for wishes in rows], num_threads=2)[0]
        assert set(drawn) == set(kept[0].tolist())


def test_levels_threads_and_the_rest_of_the_batch_change_nothing() -> None:
    logits = random_logits(7, 60, 5000)
    asked = [
        (
            Wishes(seed=3, position=i, prompt=[1, 2, 3] * i),
            Filters(
                typical_p=0.9 if i % 2 else 1.0,
                xtc_probability=0.5,
                top_n_sigma=float(i % 3),
                dry_multiplier=1.0,
                dry_breakers=[[3]] * (i % 2),
                mirostat_mu=6.0,
            ),
        )
        for i in range(60)
    ]
    alone = [run_native(logits[i : i + 1], [asked[i]]) for i in range(60)]
    for level in LEVELS:
        token_ids, surprises, _ = run_native(logits, asked, level=level, num_threads=2)
        assert token_ids == [tokens[0] for tokens, _, _ in alone]
        assert surprises == [values[0] for _, values, _ in alone]


def test_dry_forbids_what_a_long_repetition_would_go_on_with() -> None:
    """1 2 3 4 | 1 2 3: token 4 loses 0.8 * 1.75^(3 - 2). A breaker after 1 2 ends the match."""
    logits = np.array([[0.0, 0.0, 0.0, 0.0, 1.0, 0.5]], np.float32)
    wishes = Wishes(temperature=0.0, prompt=[1, 2, 3, 4, 1, 2, 3])
    dry = Filters(dry_multiplier=0.8)
    assert run_native(logits, [(wishes, Filters())])[0] == [4]
    assert run_native(logits, [(wishes, dry)])[0] == [5]
    assert run_native(logits, [(wishes, replace(dry, dry_allowed_length=4))])[0] == [4]
    assert run_native(logits, [(wishes, replace(dry, dry_breakers=[[1, 2]]))])[0] == [4]
    assert run_native(logits, [(wishes, replace(dry, dry_breakers=[[4]]))])[0] == [4]
    assert run_native(logits, [(wishes, replace(dry, dry_last_n=5))])[0] == [4]


def test_a_row_of_which_nothing_is_allowed_gives_token_0_and_is_counted() -> None:
    logits = np.full((1, 30), np.nan, np.float32)
    assert run_native(logits, [(Wishes(), Filters(typical_p=0.5))]) == ([0], [0.0], 1)


def filters_of(values: list[float], *ids: int) -> native.Filters:
    return native.Filters(FILTER_ROW.pack(*values), np.array(ids, np.int32))


NEUTRAL: list[float] = [-1, 0, 1, 1, 0, 0.1, np.inf, 1.0, 1.75, 2, 0, 0, 0, 0]


@pytest.mark.parametrize(
    ("changes", "ids", "message"),
    [
        ({10: 1}, [], "filter row"),
        ({11: 1}, [], "DRY history"),
        ({13: 2}, [1], "breakers"),
        ({13: 1}, [1], "cut short"),
        ({13: 2}, [-1, -1], "empty"),
        ({13: 2}, [9, -1], "sequence breaker holds token 9"),
        ({3: 0}, [], "typical_p"),
        ({3: float("nan")}, [], "typical_p"),
        ({9: 0}, [], "DRY"),
    ],
)
def test_filters_that_point_outside_are_refused(
    changes: dict[int, float], ids: list[int], message: str
) -> None:
    values = [changes.get(i, value) for i, value in enumerate(NEUTRAL)]
    sampler = native.Sampler(native.ThreadPool(1), LEVELS[0], 9)
    row = packed_row(Wishes(), 0, 0)
    with pytest.raises(ValueError, match=message):
        sampler.sample(
            np.zeros((1, 9), np.float32),
            row,
            NO_IDS,
            NO_IDS,
            NO_VALUES,
            no_masks(9),
            filters=filters_of(values, *ids),
        )


def test_a_filter_row_that_is_cut_short_is_refused() -> None:
    with pytest.raises(ValueError, match="cut short"):
        native.Filters(b"1234", NO_IDS)
