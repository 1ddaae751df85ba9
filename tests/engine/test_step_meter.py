"""A step's time ends where the next one begins, or with its work."""

from __future__ import annotations

from octavo.core.schedule import MoveKind, PageMove, ScheduledSequence, ScheduledStep
from octavo.core.sequence import Sequence
from octavo.core.step_load import MeasuredStep, StepLoad
from octavo.engine.step_log import MAX_STEPS, StepLog, StepReport
from octavo.engine.step_meter import StepMeter
from tests.engine.drive_engine import Rig
from tests.fakes import make_request

LOAD = StepLoad(3, 1, 1, 0, 6, 3)


def step(*moves: PageMove) -> ScheduledStep:
    request = make_request("abc")
    sequence = Sequence(request, 0, [1, 2, 3], num_prompt_tokens=3, seed=0)
    return ScheduledStep([ScheduledSequence(sequence, 0, 3, samples=True)], 3, list(moves))


def test_what_happens_between_steps_is_time_of_the_first() -> None:
    meter = StepMeter()
    meter.begins(10.0)
    meter.ends(step(), 10.0, 11.0, has_more=True)
    assert meter.take() == []
    meter.begins(11.5)
    assert meter.take() == [MeasuredStep(LOAD, 1.5)]


def test_who_arrives_during_a_step_is_counted_and_who_finds_an_idle_engine_is_not() -> None:
    meter = StepMeter()
    meter.arrived()
    meter.begins(10.0)
    meter.ends(step(), 10.0, 11.0, has_more=True)
    meter.arrived()
    meter.arrived()
    meter.begins(12.0)
    meter.ends(step(), 12.0, 13.0, has_more=False)
    assert meter.take() == [MeasuredStep(LOAD, 2.0, 2), MeasuredStep(LOAD, 1.0)]


def test_waiting_for_work_is_no_steps_time() -> None:
    meter = StepMeter()
    meter.ends(step(), 10.0, 11.0, has_more=False)
    assert meter.take() == [MeasuredStep(LOAD, 1.0)]
    meter.begins(99.0)
    assert meter.take() == []


def test_steps_that_failed_or_moved_pages_are_not_told_of() -> None:
    meter = StepMeter()
    meter.begins(10.0)
    meter.begins(11.0)
    meter.ends(step(PageMove(MoveKind.COPY, 0, 1)), 11.0, 12.0, has_more=False)
    assert meter.take() == []


def test_an_engine_tells_all_of_its_steps_once() -> None:
    rig = Rig()
    told: list[MeasuredStep] = []
    rig.engine.submit(make_request("a prompt"))
    while rig.engine.has_work:
        told += rig.engine.step().steps
    assert len(told) == rig.engine.stats().num_steps
    prompt, *decodes = (one.load for one in told)
    assert (prompt.num_tokens, prompt.num_sequences) == (8, 1)
    assert all(one.num_tokens == 1 for one in decodes)
    assert all(one.seconds >= 0 for one in told)


def test_a_log_keeps_the_latest_and_tells_what_is_new() -> None:
    log = StepLog()
    log.add([MeasuredStep(LOAD, float(number)) for number in range(MAX_STEPS)])
    earlier = log.report()
    log.add([MeasuredStep(LOAD, -1.0)])
    later = log.report()
    assert later.since(earlier) == [MeasuredStep(LOAD, -1.0)]
    assert earlier.since(earlier) == []
    assert (later.num_steps, len(later.steps)) == (MAX_STEPS + 1, MAX_STEPS)
    assert later.steps[0].seconds == 1.0
    assert later.since(StepReport(0, [])) == later.steps
