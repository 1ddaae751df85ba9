"""What protocols share that put a chat in other words: reading parts of bodies, and errors in their
terms. Knows no protocol."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import msgspec

from octavo.entrypoints.openai.chat.tool_fields import FunctionName, ToolChoiceBody
from octavo.errors import InvalidRequest, RequestError, UnsupportedParameter

Part = Mapping[str, Any]
"""What its `type` says it is."""
Message = dict[str, Any]
"""Of a chat, as templates read it."""
Kind = TypeVar("Kind", bound=msgspec.Struct)

_FUNCTION = re.compile(r"(tools\[\d+\])\.function\b")


def read_part(part: Part, kind: type[Kind], where: str) -> Kind:
    """As in a whole body, null means that a field is not given. Raises `InvalidRequest`."""
    given = {name: value for name, value in part.items() if value is not None}
    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        raise InvalidRequest(f"{where}: {error}", param=where) from None


def unsupported_type(
    kind: object, where: str, supported: str, param: str = ""
) -> UnsupportedParameter:
    """For a part at `where` that says it is a `kind`; `supported` is such as "only text is"."""
    return UnsupportedParameter(
        f"{where}.type is {str(kind)[:48]!r}; {supported} supported", param=param or where
    )


def chosen_function(name: str | None) -> ToolChoiceBody:
    if name is None:
        raise InvalidRequest("tool_choice has no name", param="tool_choice")
    return ToolChoiceBody("function", FunctionName(name))


@contextmanager
def in_other_terms(renamed: Callable[[str], str]) -> Iterator[None]:
    """Errors within are told with the names that a protocol's clients know."""
    try:
        yield
    except RequestError as error:
        error.message = renamed(error.message)
        error.param = error.param and renamed(error.param)
        raise


def without_functions(text: str) -> str:
    """Elsewhere a tool has no `function` inside."""
    return _FUNCTION.sub(r"\1", text)
