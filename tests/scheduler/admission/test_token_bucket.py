from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.scheduler.admission.token_bucket import TokenBucket

AMOUNTS = st.integers(1, 40)
PAUSES = st.floats(0, 20)


@given(
    rate=st.floats(0.1, 50),
    burst=st.integers(1, 100),
    attempts=st.lists(st.tuples(PAUSES, AMOUNTS), max_size=60),
)
def test_no_span_of_time_grants_more_than_burst_and_rate(
    rate: float, burst: int, attempts: list[tuple[float, int]]
) -> None:
    bucket = TokenBucket(rate, burst, 0.0)
    now = 0.0
    granted: list[tuple[float, float]] = []
    for pause, asked in attempts:
        now += pause
        wanted = min(asked, burst)
        if bucket.covers(wanted, now):
            bucket.take(wanted, now)
            granted.append((now, wanted))
    for first, (start, _) in enumerate(granted):
        total = 0.0
        for end, amount in granted[first:]:
            total += amount
            assert total <= burst + rate * (end - start) + 1e-6


@given(rate=st.floats(0.1, 50), burst=st.integers(1, 100), amount=AMOUNTS, taken=AMOUNTS)
def test_what_is_refused_is_granted_after_the_time_told(
    rate: float, burst: int, amount: int, taken: int
) -> None:
    bucket = TokenBucket(rate, burst, 0.0)
    bucket.take(taken, 0.0)
    seconds = bucket.seconds_until(amount, 0.0)
    assert bucket.covers(amount, 0.0) == (seconds == 0)
    assert seconds == 0 or not bucket.covers(amount, seconds * 0.99)
    assert bucket.covers(amount, seconds + 1e-6)


def test_at_the_burst_and_one_beyond() -> None:
    bucket = TokenBucket(rate=1, burst=3, now=0.0)
    for _ in range(3):
        assert bucket.covers(1, 0.0)
        bucket.take(1, 0.0)
    assert not bucket.covers(1, 0.0)
    assert not bucket.covers(1, 0.99)
    assert bucket.covers(1, 1.0)


def test_more_than_the_burst_needs_a_full_bucket() -> None:
    bucket = TokenBucket(rate=2, burst=10, now=0.0)
    assert bucket.covers(50, 0.0)
    bucket.take(1, 0.0)
    assert not bucket.covers(50, 0.0)
    assert bucket.seconds_until(50, 0.0) == 0.5


def test_a_debt_is_paid_off_at_the_rate() -> None:
    bucket = TokenBucket(rate=2, burst=10, now=0.0)
    bucket.take(14, 0.0)
    assert bucket.level(0.0) == -4
    assert bucket.seconds_until(2, 0.0) == 3
    assert bucket.level(3.0) == 2


def test_what_is_given_back_never_makes_it_more_than_full() -> None:
    bucket = TokenBucket(rate=1, burst=10, now=0.0)
    bucket.take(4, 0.0)
    bucket.give_back(3, 0.0)
    assert bucket.level(0.0) == 9
    bucket.give_back(3, 0.0)
    assert bucket.level(0.0) == 10


def test_a_clock_set_back_neither_grants_nor_stalls() -> None:
    bucket = TokenBucket(rate=1, burst=10, now=1000.0)
    bucket.take(10, 1000.0)
    assert bucket.level(0.0) == 0
    assert bucket.level(2.0) == pytest.approx(2)
