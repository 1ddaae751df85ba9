"""How a dialect's calls are written where they are written by rule, not by habit. Data only.

Whatever is written so, the parser of the same dialect reads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from octavo.parsing.tagged_calls import TaggedCalls

ArgumentsStyle = Literal["json", "keywords", "tags", "braces"]


@dataclass(frozen=True, slots=True)
class CallStyle:
    """`begin call (separator call)* end`, a call being `before NAME middle ARGUMENTS after`.

    Arguments are a JSON object, Python keywords, a tag for each (as in `tags`, with `space` around
    values and `quote` around keys), or gemma's braces with strings between `quote`. With `numbered`
    a colon and a number stand behind the name.
    """

    before: str
    middle: str
    after: str
    begin: str = ""
    separator: str = ""
    end: str = ""
    arguments: ArgumentsStyle = "json"
    tags: TaggedCalls | None = None
    quote: str = ""
    space: str = ""
    numbered: bool = False


def json_calls(begin: str, end: str, *, key: str = "arguments") -> CallStyle:
    """One object for each call, each between `begin` and `end`."""
    return CallStyle(f'{begin}{{"name": "', f'", "{key}": ', f"}}{end}", separator="\n")


def json_list(begin: str, end: str = "") -> CallStyle:
    """All calls in one list."""
    return CallStyle(
        '{"name": "', '", "arguments": ', "}", begin + "[", separator=", ", end="]" + end
    )


def python_calls(begin: str, end: str, *, separator: str = ", ") -> CallStyle:
    return CallStyle("", "(", ")", begin=begin, separator=separator, end=end, arguments="keywords")


def tagged_calls(tags: TaggedCalls, *, quote: str = "", space: str = "") -> CallStyle:
    """A line for each tag, and `quote` around names where they stand in attributes."""
    return CallStyle(
        f"{tags.call_open}{quote}",
        f"{quote}{tags.name_end}".rstrip("\n"),
        f"\n{tags.call_close}",
        begin=f"{tags.section_open}\n" if tags.section_open else "",
        separator="\n",
        end=f"\n{tags.section_close}" if tags.section_close else "",
        arguments="tags",
        tags=tags,
        quote=quote,
        space=space,
    )


def braced_calls(begin: str, quote: str, end: str) -> CallStyle:
    return CallStyle(f"{begin}call:", "{", "}" + end, arguments="braces", quote=quote)
