"""The functions that a chat template may call: filters, tests, methods and globals by name.

An allow-list of what published chat templates use, with their meaning in jinja2 and transformers.
Functions whose result may outgrow their operands ask the budget first. Nothing here can reach a
file, a module or an attribute that is not listed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sized
from datetime import datetime
from types import MappingProxyType
from typing import Final

from jinja2 import pass_context
from jinja2.filters import FILTERS as JINJA_FILTERS
from jinja2.runtime import Context, LoopContext
from jinja2.tests import TESTS as JINJA_TESTS
from jinja2.utils import Namespace

from octavo.errors import TemplateError
from octavo.tokenization.template_budget import Budget, joined_chars

BUDGET: Final = " budget"
"""The budget's name among a template's variables: no template can spell a name with a space."""

MAX_INDENT: Final = 16

Filter = Callable[..., object]

_PLAIN_FILTERS: Final = (
    "abs",
    "count",
    "d",
    "default",
    "dictsort",
    "first",
    "float",
    "int",
    "items",
    "last",
    "length",
    "map",
    "max",
    "min",
    "reject",
    "rejectattr",
    "reverse",
    "select",
    "selectattr",
    "sort",
    "unique",
)
_TEXT_FILTERS: Final = ("capitalize", "lower", "title", "trim", "upper")

TESTS: Final = (
    "==",
    "!=",
    "<",
    "<=",
    ">",
    ">=",
    "boolean",
    "defined",
    "divisibleby",
    "eq",
    "equalto",
    "even",
    "false",
    "float",
    "ge",
    "greaterthan",
    "gt",
    "in",
    "integer",
    "iterable",
    "le",
    "lessthan",
    "lower",
    "lt",
    "mapping",
    "ne",
    "none",
    "number",
    "odd",
    "sameas",
    "sequence",
    "string",
    "true",
    "undefined",
    "upper",
)

_TEXT_METHODS = frozenset(
    {
        "capitalize",
        "count",
        "endswith",
        "find",
        "index",
        "isalnum",
        "isalpha",
        "isdigit",
        "islower",
        "isspace",
        "isupper",
        "lower",
        "lstrip",
        "removeprefix",
        "removesuffix",
        "rfind",
        "rsplit",
        "rstrip",
        "split",
        "splitlines",
        "startswith",
        "strip",
        "title",
        "upper",
    }
)
_ATTRIBUTES: Final[tuple[tuple[type, frozenset[str]], ...]] = (
    (str, _TEXT_METHODS),
    (dict, frozenset({"get", "items", "keys", "values"})),
    (list, frozenset({"count", "index"})),
    (tuple, frozenset({"count", "index"})),
    (
        LoopContext,
        frozenset(
            {
                "changed",
                "cycle",
                "depth",
                "depth0",
                "first",
                "index",
                "index0",
                "last",
                "length",
                "nextitem",
                "previtem",
                "revindex",
                "revindex0",
            }
        ),
    ),
)


def is_allowed_attribute(value: object, name: str) -> bool:
    return any(isinstance(value, kind) and name in names for kind, names in _ATTRIBUTES)


def budget_of(context: Context) -> Budget:
    budget = context.resolve_or_missing(BUDGET)
    assert isinstance(budget, Budget)
    return budget


@pass_context
def _join(
    context: Context, value: Iterable[object], d: object = "", attribute: str | None = None
) -> str:
    if attribute is not None:
        raise TemplateError("the filter join with an attribute is not supported")
    return join(budget_of(context), d, value)


def join(budget: Budget, separator: object, value: Iterable[object]) -> str:
    """What str(separator).join(value) is, with every item as text."""
    parts = [to_text(budget, item) for item in value]
    budget.chars(joined_chars(parts, str(separator)))
    return str(separator).join(parts)


@pass_context
def _replace(context: Context, s: object, old: str, new: str, count: int | None = None) -> str:
    return replace(budget_of(context), to_text(budget_of(context), s), old, new, count)


def replace(budget: Budget, text: str, old: str, new: str, count: int | None = None) -> str:
    old, new = str(old), str(new)
    times = text.count(old) if count is None or count < 0 else min(count, text.count(old))
    budget.chars(len(text) + times * (len(new) - len(old)))
    return text.replace(old, new, times)


@pass_context
def _string(context: Context, value: object) -> str:
    return to_text(budget_of(context), value)


def to_text(budget: Budget, value: object) -> str:
    """`value` as a template shows it."""
    if isinstance(value, str):
        return value
    budget.value(value)
    return str(value)


@pass_context
def _indent(
    context: Context, s: str, width: int | str = 4, first: bool = False, blank: bool = False
) -> str:
    """Indent all lines but the first (unless `first`) and blank ones (unless `blank`)."""
    lead = width if isinstance(width, str) else " " * _at_most("indent width", width, MAX_INDENT)
    _at_most("indent width", len(lead), MAX_INDENT)
    head, *rest = str(s).split("\n")
    lines = [lead + head if first else head]
    lines += [lead + line if blank or line.strip() else line for line in rest]
    return join(budget_of(context), "\n", lines)


@pass_context
def _tojson(
    context: Context,
    x: object,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    budget_of(context).value(x)
    if indent is not None:
        _at_most("tojson indent", indent, MAX_INDENT)
    if separators is not None:
        for separator in separators:
            _at_most("length of a tojson separator", len(separator), MAX_INDENT)
    try:
        return json.dumps(
            x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
        )
    except (TypeError, ValueError) as error:
        raise TemplateError(f"the chat template makes JSON of what is none: {error}") from None


@pass_context
def _list(context: Context, value: Iterable[object]) -> list[object]:
    if isinstance(value, Sized):
        budget_of(context).items(len(value))
    return list(value)


def _round(value: float, precision: int = 0, method: str = "common") -> float:
    _at_most("round precision", precision, 15)
    return JINJA_FILTERS["round"](value, precision, method)  # type: ignore[no-any-return]


def _at_most(name: str, value: int, most: int) -> int:
    if not 0 <= value <= most:
        raise TemplateError(f"the chat template has {name} {value}; 0 to {most} are allowed")
    return value


def _on_text(function: Filter) -> Filter:
    """A filter of jinja2 that turns what it gets into text, which must be text or small."""

    @pass_context
    def checked(context: Context, value: object, *args: object, **kwargs: object) -> object:
        return function(to_text(budget_of(context), value), *args, **kwargs)

    return checked


@pass_context
def _tick(context: Context, value: object, chars: int = 0) -> object:
    """Stands at the head of every body and before every operation that may take long."""
    budget_of(context).tick(chars)
    return value


@pass_context
def _stored(context: Context, value: object) -> object:  # noqa: ARG001
    """Stands before what is stored in a namespace: no namespaces, which could hold each other."""
    if isinstance(value, Namespace):
        raise TemplateError("the chat template puts a namespace into a namespace")
    return value


@pass_context
def _checked(context: Context, value: object) -> object:
    """Stands around every list and dict that a template writes down."""
    budget_of(context).value(value)
    return value


TICK: Final = "octavo tick"
CHECKED: Final = "octavo checked"
STORED: Final = "octavo stored"

FILTERS: Final = MappingProxyType(
    {
        **{name: JINJA_FILTERS[name] for name in _PLAIN_FILTERS},
        **{name: _on_text(JINJA_FILTERS[name]) for name in _TEXT_FILTERS},
        "indent": _indent,
        "join": _join,
        "list": _list,
        "replace": _replace,
        "round": _round,
        "safe": _string,
        "string": _string,
        "tojson": _tojson,
        TICK: _tick,
        CHECKED: _checked,
        STORED: _stored,
    }
)
ALLOWED_TESTS: Final = MappingProxyType({name: JINJA_TESTS[name] for name in TESTS})


def namespace(**values: object) -> Namespace:
    """A place for values that outlive a loop pass."""
    for value in values.values():
        if isinstance(value, Namespace):
            raise TemplateError("the chat template puts a namespace into a namespace")
    return Namespace(**values)


def raise_exception(message: object) -> None:
    """What templates call to refuse messages; the reason reaches the client."""
    raise TemplateError(str(message)[:1000], param="messages", code="chat_template_refused")


@pass_context
def bounded_range(context: Context, *bounds: int) -> range:
    numbers = range(*bounds)
    budget_of(context).items(len(numbers))
    return numbers


def time_formatter(now: Callable[[], datetime]) -> Callable[[str], str]:
    """`strftime_now`: the local time in the given format, without field widths."""

    def strftime_now(pattern: str) -> str:
        if len(pattern) > 64 or not re.fullmatch(r"(?:[^%]|%-?[A-Za-z%])*", pattern, re.DOTALL):
            raise TemplateError(f"the chat template has the time format {pattern[:64]!r}")
        return now().strftime(pattern)

    return strftime_now
