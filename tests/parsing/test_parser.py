"""Any text at all: no error, nothing lost, and the same events however it is cut."""

from __future__ import annotations

import json
import re
import time
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from octavo.parsing.dialects import REASONING_DIALECTS, TOOL_DIALECTS
from octavo.parsing.events import ToolCallEnd, ToolCallStart, gather
from octavo.parsing.parser import OutputParser, random_call_id
from octavo.parsing.reader import MAX_ATTEMPT_CHARS
from tests.parsing.sample_files import TOOLS, Sample, joined, read_samples

SAMPLES = read_samples()


def fragments(dialect: str) -> list[str]:
    """Markers, names, brackets and words of a dialect's samples, to be put together at random."""
    text = " ".join(sample.text for sample in SAMPLES if sample.dialect == dialect)
    words = re.findall(r"<[^<>\s]*>?|\[[A-Z_/]+\]|```\w*|\w+|\s+|[^\w\s]", text)
    return sorted({*words, '"', "\\", "{", "}", "[", "]", ",", " ", "\n", "é", "1"})


def answers(dialect: str) -> st.SearchStrategy[str]:
    """Whole samples with pieces left out and put in, and soup."""
    texts = [sample.text for sample in SAMPLES if sample.dialect == dialect]
    piece = st.sampled_from(fragments(dialect))
    changed = st.builds(
        lambda text, at, num_left_out, put_in: (
            text[: at % (len(text) + 1)] + put_in + text[at % (len(text) + 1) + num_left_out :]
        ),
        st.sampled_from(texts),
        st.integers(0, 400),
        st.integers(0, 30),
        st.lists(piece, max_size=4).map("".join),
    )
    return changed | st.lists(piece, max_size=25).map("".join)


def sample_of(dialect: str, text: str, reasoning: str | None, is_open: bool) -> Sample:
    return Sample(dialect, "", text, "", "", (), reasoning, is_open)


@pytest.mark.parametrize("dialect", sorted(TOOL_DIALECTS))
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_events_of_any_text_are_the_same_however_it_is_cut(
    dialect: str, data: st.DataObject
) -> None:
    text = data.draw(answers(dialect))
    reasoning = data.draw(st.sampled_from([None, *REASONING_DIALECTS]))
    sample = sample_of(dialect, text, reasoning, data.draw(st.booleans()))
    whole = joined(sample.parse([text]))
    assert joined(sample.parse(list(text))) == whole
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=4)))
    edges = [0, *cuts, len(text)]
    pieces = [text[a:b] for a, b in pairwise(edges)]
    assert joined(sample.parse(pieces)) == whole


@pytest.mark.parametrize("dialect", sorted(TOOL_DIALECTS))
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_each_call_is_whole_and_complete_ones_hold_json(dialect: str, data: st.DataObject) -> None:
    text = data.draw(answers(dialect))
    events = sample_of(dialect, text, None, is_open=False).parse([text])
    starts = [event.index for event in events if isinstance(event, ToolCallStart)]
    ends = [event.index for event in events if isinstance(event, ToolCallEnd)]
    assert starts == ends == list(range(len(starts)))
    for call in gather(events).tool_calls:
        assert call.name in TOOLS
        is_decoded = '"' + call.arguments[:1] in text  # of a string, which may hold anything
        if call.complete and not is_decoded:
            json.loads(call.arguments)


@given(text=st.text(alphabet="ab .,\n\t1é😀(-", max_size=60))
def test_text_without_any_marker_is_content_as_it_is(text: str) -> None:
    for dialect in TOOL_DIALECTS:
        assert gather(sample_of(dialect, text, None, False).parse(list(text))).content == text


@pytest.mark.parametrize("dialect", sorted(TOOL_DIALECTS))
def test_without_tools_every_text_is_content(dialect: str) -> None:
    if TOOL_DIALECTS[dialect].is_harmony:
        return
    for sample in SAMPLES:
        if sample.dialect == dialect:
            parser = OutputParser(TOOL_DIALECTS[dialect], None, {})
            parts = [parser.feed(character) for character in sample.text]
            events = [event for part in (*parts, parser.finish()) for event in part]
            squeezed = re.sub(r"\s", "", sample.text)
            assert re.sub(r"\s", "", gather(events).content) == squeezed


@pytest.mark.parametrize("dialect", sorted(TOOL_DIALECTS))
def test_little_text_is_held_back(dialect: str) -> None:
    """An attempt without end becomes content; nothing grows with the text."""
    for opener in [form.opener for form in TOOL_DIALECTS[dialect].forms] or ["<|channel|>"]:
        parser = OutputParser(TOOL_DIALECTS[dialect], None, TOOLS)
        text = opener + '{"x": "' + "y" * (2 * MAX_ATTEMPT_CHARS)
        assert gather(parser.feed(text)).content
        assert len(gather(parser.feed("y" * 100)).content) == 100


def test_random_ids_differ() -> None:
    assert random_call_id() != random_call_id()
    assert re.fullmatch("call_[0-9a-f]{24}", random_call_id())


@pytest.mark.parametrize("dialect", sorted(TOOL_DIALECTS))
def test_text_full_of_openers_costs_little(dialect: str) -> None:
    """Each opener is an attempt that fails; none may cost more than a short look."""
    for opener in [form.opener for form in TOOL_DIALECTS[dialect].forms] or ["<|channel|>"]:
        text = opener * (64 * 1024 // len(opener))
        start = time.thread_time()
        events = sample_of(dialect, text, None, is_open=False).parse([text])
        assert time.thread_time() - start < 10
        assert gather(events).content == text
