"""Two languages of grammars, one Lark text."""

from __future__ import annotations

import pytest

from octavo.structured.grammar_dialect import lark_text


@pytest.mark.parametrize(
    "text",
    [
        'start: "a"',
        '?start: x\n?x: "::=" | /::=/ // root ::= "a"',
        'start[max_tokens=5]: /a+/',
        '%llguidance {}\nstart: "%json" "<[5]>" /<[5]>/ # <[5]> %json',
    ],
)  # fmt: skip
def test_lark_stays_as_it_is(text: str) -> None:
    assert lark_text(text) == text


@pytest.mark.parametrize(
    ("text", "lark"),
    [
        ('root ::= "a" [0-9]+', 'start: "a" /[0-9]/+'),
        (
            r'root ::= "\u00e9\u0041\\u00e9\n" [\u00e0-\U0001F642]',
            r'start: "é\x41\\u00e9\n" /[à-🙂]/',
        ),
    ],
)  # fmt: skip
def test_gbnf_is_translated(text: str, lark: str) -> None:
    assert lark in lark_text(text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('start: %json {"type": "integer"}', "%json is not supported"),
        ('%llguidance {"no_forcing": true}\nstart: "a"', "options after %llguidance"),
        ("start: <[5]>", "ids of tokens"),
        ("start: x\nx[temperature=0.5]: /a/", "temperature"),
        (r'root ::= "\ud800"', "no character"),
        (r'root ::= "\UFFFFFFFF"', "no character"),
        ("", "root"),
        ("root ::= nowhere", "nowhere"),
    ],
)
def test_what_is_not_supported_is_named(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        lark_text(text)
