"""First come, first served, except for those who were there before."""

from __future__ import annotations

from octavo.scheduler.waiting_queue import FcfsQueue
from tests.fakes import make_sequence


def test_the_head_is_the_first_that_came() -> None:
    queue = FcfsQueue()
    first, second = make_sequence("a"), make_sequence("b")
    queue.append(first)
    queue.append(second)
    assert queue.head() is first
    queue.discard(first)
    assert queue.head() is second


def test_who_comes_back_goes_before_all_others() -> None:
    queue = FcfsQueue()
    waiting, back = make_sequence("a"), make_sequence("b")
    queue.append(waiting)
    queue.push_front(back)
    assert queue.head() is back
    assert len(queue) == 2


def test_discarding_the_absent_is_harmless_and_an_empty_queue_has_no_head() -> None:
    queue = FcfsQueue()
    queue.discard(make_sequence("a"))
    assert queue.head() is None
    assert len(queue) == 0
