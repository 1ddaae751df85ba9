"""Every recorded answer of every dialect: its meaning, and the same however it is cut."""

from __future__ import annotations

import json

import pytest

from octavo.parsing.dialects import TOOL_DIALECTS
from octavo.parsing.events import Event, gather
from tests.parsing.sample_files import Sample, joined, read_samples

SAMPLES = read_samples()

each_sample = pytest.mark.parametrize(
    "sample", SAMPLES, ids=[f"{sample.dialect}: {sample.name}" for sample in SAMPLES]
)


def test_every_dialect_has_a_sample() -> None:
    assert {sample.dialect for sample in SAMPLES} == set(TOOL_DIALECTS)


@each_sample
def test_a_whole_answer_means_what_is_written_beside_it(sample: Sample) -> None:
    output = gather(sample.parse([sample.text]))
    assert output.content == sample.content
    assert output.reasoning == sample.reasoning
    got = [(call.name, call.arguments, call.complete) for call in output.tool_calls]
    assert got == [call[:3] for call in sample.calls]
    for call, (*_, call_id) in zip(output.tool_calls, sample.calls, strict=True):
        assert call.id == call_id or (call_id is None and call.id.startswith("call_"))


@each_sample
def test_complete_arguments_are_an_object_in_json(sample: Sample) -> None:
    for call in gather(sample.parse([sample.text])).tool_calls:
        if call.complete:
            assert isinstance(json.loads(call.arguments), dict)


@each_sample
def test_the_events_are_the_same_cut_at_any_character(sample: Sample) -> None:
    text = sample.text
    whole = joined(sample.parse([text]))
    assert joined(sample.parse(list(text))) == whole
    for cut in range(len(text) + 1):
        assert joined(sample.parse([text[:cut], text[cut:]])) == whole


@each_sample
def test_every_beginning_of_an_answer_means_the_same_however_cut(sample: Sample) -> None:
    for end in range(len(sample.text)):
        beginning = sample.text[:end]
        assert joined(sample.parse(list(beginning))) == joined(sample.parse([beginning]))


@each_sample
def test_what_is_shown_early_stays_true(sample: Sample) -> None:
    """Deltas are never taken back: each beginning of the stream's sum is one of the whole's."""
    whole = gather(sample.parse([sample.text]))
    parser = sample.parser()
    seen: list[Event] = []
    for character in sample.text:
        seen += parser.feed(character)
        now = gather(seen)
        assert whole.content.startswith(now.content)
        assert whole.reasoning.startswith(now.reasoning)
        for call, final in zip(now.tool_calls, whole.tool_calls, strict=False):
            assert final.arguments.startswith(call.arguments)
            assert (call.id, call.name) == (final.id, final.name)
