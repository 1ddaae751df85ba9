"""Templates made of anything, and the texts that once were hard: only declared errors escape (D2).

`corpus/` keeps what was found, by hand and by these tests; add a finding there when it is mended.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from octavo.errors import TemplateError
from octavo.tokenization.chat_template import ChatTemplate
from octavo.tokenization.detokenizer import Detokenizer
from octavo.tokenization.stop_matcher import StopMatcher

CORPUS = Path(__file__).parent / "corpus"
TEMPLATES: list[str] = json.loads((CORPUS / "templates.json").read_text())
TEXTS: list[list[str]] = json.loads((CORPUS / "texts.json").read_text())
MESSAGES: list[dict[str, object]] = [
    {"role": "user", "content": "hello"},
    {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f"}}]},
    {"role": "tool", "content": [{"type": "text", "text": "x"}]},
]

names = st.sampled_from(
    ["messages", "m", "x", "ns", "loop", "tools", "range", "namespace", "'a'", "1", "[1]", "none"]
)
pieces = st.sampled_from(
    [
        *("{{ ", " }}", "{% ", " %}", "{#", "#}", "for x in ", "endfor", "if ", "else", "endif"),
        *("set x = ", "set ns.x = ", "macro m(x)", "endmacro", "m(", ")", "(", "[", "]", "{", "}"),
        *(" | ", "join", "tojson", "map('string')", "list", "length", "trim", "replace('a', 'bb')"),
        *(".", "content", "__class__", "items()", "[0]", "[::-1]", " + ", " * ", " ~ ", " ** "),
        *(
            "range(",
            "99999",
            "recursive",
            "break",
            "raw",
            "endraw",
            ", ",
            ": ",
            "'",
            '"',
            "\n",
            "\x00",
        ),
    ]
)


def _outcome(source: str) -> str | None:
    """What the template writes, None if it is refused; anything else is a finding."""
    try:
        return ChatTemplate(source, {"bos_token": "<s>"}).render(MESSAGES)
    except TemplateError as error:
        refusal = error
    assert len(refusal.message) <= 1200
    return None


@settings(max_examples=300)
@given(parts=st.lists(st.one_of(pieces, names, st.text(max_size=3)), max_size=25))
def test_templates_made_of_pieces_render_or_are_refused(parts: list[str]) -> None:
    _outcome("".join(parts))


@settings(max_examples=150)
@given(source=st.sampled_from(TEMPLATES), data=st.data())
def test_templates_of_the_corpus_with_pieces_put_in(source: str, data: st.DataObject) -> None:
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(source)))
        source = source[:at] + data.draw(pieces) + source[at + data.draw(st.integers(0, 4)) :]
    _outcome(source)


@pytest.mark.parametrize("source", TEMPLATES, ids=range(len(TEMPLATES)))
def test_the_templates_of_the_corpus(source: str) -> None:
    _outcome(source)


@pytest.mark.parametrize("texts", TEXTS, ids=range(len(TEXTS)))
def test_texts_of_the_corpus_are_cut_and_joined(texts: list[str]) -> None:
    whole = "".join(texts)
    tokens = [bytes([byte]) for byte in whole.encode("utf-8", "surrogatepass")]
    detokenizer = Detokenizer(lambda id_: tokens[id_], strips_space=False)
    text = "".join(map(detokenizer.push, range(len(tokens)))) + detokenizer.flush()
    assert text == b"".join(tokens).decode("utf-8", "replace")
    stops = [one for one in texts if one]
    cut = StopMatcher(stops, include_stop=False)
    shown = ""
    for character in whole:
        result = cut.push(character)
        shown += result.text
        if result.matched is not None:
            break
    else:
        shown += cut.flush()
    at_once = StopMatcher(stops, include_stop=False).push(whole)
    assert shown == at_once.text
