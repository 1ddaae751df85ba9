"""Options as dataclass fields: how one is declared, read from a text, and checked.

Knows no particular option, prints nothing, and reads neither files nor the environment.
"""

from __future__ import annotations

import difflib
import math
import re
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal, TypeVar

from octavo.errors import ConfigError

Kind = Literal["integer", "number", "switch", "text", "texts", "bytes"]
Config = TypeVar("Config")

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", re.IGNORECASE)
_SHIFTS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}
_SWITCHES = {"true": True, "yes": True, "on": True, "1": True}
_SWITCHES |= {"false": False, "no": False, "off": False, "0": False}


def option(
    default: Any,
    help_text: str,
    *,
    choices: tuple[str, ...] = (),
    metavar: str = "",
    minimum: float | None = None,
    maximum: float | None = None,
    is_secret: bool = False,
    is_private: bool = False,
) -> Any:
    """A dataclass field that is a flag, a YAML key, an OCTAVO_ variable and a keyword.

    Its annotation says what it takes: int, float, bool, str, `tuple[str, ...]`, or one of them or
    None. `metavar="BYTES"` makes an int a size, which may be written "512M". The bounds include
    themselves. A secret is never repeated in an error. What is private is not told to clients: it
    names places of this machine, or says how others are told apart.
    """
    facts = {
        "help": help_text,
        "choices": choices,
        "metavar": metavar,
        "minimum": minimum,
        "maximum": maximum,
        "is_secret": is_secret,
        "is_private": is_private or is_secret,
    }
    return field(default=default, metadata=facts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One declared field. `flag` is its long flag; the YAML key is the same without dashes."""

    name: str
    kind: Kind
    is_optional: bool
    default: object
    help_text: str
    choices: tuple[str, ...]
    metavar: str
    minimum: float | None
    maximum: float | None
    is_secret: bool
    is_private: bool

    @property
    def key(self) -> str:
        return self.name.replace("_", "-")

    @property
    def flag(self) -> str:
        return f"--{self.key}"

    @property
    def allowed(self) -> str:
        """What it takes, in words."""
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        words = {
            "integer": "an integer",
            "number": "a number",
            "switch": "true or false",
            "text": "a text",
            "texts": "a list of texts that are not empty",
            "bytes": "a number of bytes, or one with K, M, G or T",
        }[self.kind]
        low = "" if self.minimum is None else f" from {self.minimum}"
        high = "" if self.maximum is None else f" up to {self.maximum}"
        return f"{words}{low}{high}"


def options_of(config: type) -> tuple[Option, ...]:
    """The options that a dataclass declares, in order."""
    hints = typing.get_type_hints(config)
    return tuple(
        Option(
            name=item.name,
            kind=_kind(hints[item.name], str(item.metadata.get("metavar", ""))),
            is_optional=type(None) in typing.get_args(hints[item.name]),
            default=item.default,
            help_text=item.metadata.get("help", ""),
            choices=item.metadata.get("choices", ()),
            metavar=item.metadata.get("metavar", ""),
            minimum=item.metadata.get("minimum"),
            maximum=item.metadata.get("maximum"),
            is_secret=bool(item.metadata.get("is_secret")),
            is_private=bool(item.metadata.get("is_private")),
        )
        for item in fields(config)
    )


def shown_values(config: object) -> dict[str, object]:
    """The values of the dataclass's options that clients may see, by name."""
    return {
        item.name: getattr(config, item.name)
        for item in options_of(type(config))
        if not item.is_private
    }


def check(config: object) -> None:
    """Raise ConfigError unless each field of the dataclass holds what its option allows."""
    for item in options_of(type(config)):
        check_value(item, getattr(config, item.name), origin=item.flag)


def check_value(item: Option, value: object, *, origin: str) -> None:
    """Raise ConfigError, naming `origin`, unless `value` is of the option's type and in range."""
    if not allows(item, value):
        raise refusal(item, value, origin)


def allows(item: Option, value: object) -> bool:
    """Whether `value` is of the option's type, in range, and among its choices."""
    if value is None and item.is_optional:
        return True
    fits = {
        "integer": isinstance(value, int) and not isinstance(value, bool),
        "bytes": isinstance(value, int) and not isinstance(value, bool),
        "number": isinstance(value, int | float) and not isinstance(value, bool),
        "switch": isinstance(value, bool),
        "text": isinstance(value, str),
        "texts": isinstance(value, tuple) and all(isinstance(text, str) and text for text in value),
    }[item.kind]
    return fits and _in_bounds(item, value) and (not item.choices or value in item.choices)


def read_value(item: Option, value: object, *, origin: str) -> object:
    """A value as YAML or Python code gives it, made what the option holds. Raises ConfigError."""
    if item.kind == "bytes" and isinstance(value, str):
        return read_text(item, value, origin=origin)
    if item.kind == "texts" and isinstance(value, str):
        value = (value,)
    if item.kind == "texts" and isinstance(value, list):
        value = tuple(value)
    check_value(item, value, origin=origin)
    return value


def read_text(item: Option, text: str, *, origin: str) -> object:
    """The value that a flag's or a variable's text means. Raises ConfigError naming `origin`."""
    value = _parse(item, text.strip())
    if value is None or not allows(item, value):
        raise refusal(item, text, origin)
    return value


def from_keywords(config: type[Config], keywords: Mapping[str, object]) -> Config:
    """The dataclass with Python keywords. Raises ConfigError on an unknown name, with near ones."""
    known = {item.name: item for item in options_of(config)}
    values = {}
    for name, value in keywords.items():
        if name not in known:
            raise unknown_option(name, known)
        values[name] = read_value(known[name], value, origin=name)
    return config(**values)


def unknown_option(name: str, known: Iterable[str], *, origin: str = "") -> ConfigError:
    """The error for a name that is no option, with the names that look like it."""
    near = difflib.get_close_matches(name, list(known), n=3)
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    return ConfigError(f"{origin}{name!r} is not an option{hint}")


def refusal(item: Option, value: object, origin: str) -> ConfigError:
    given = "not shown, for it is a secret" if item.is_secret else repr(value)
    return ConfigError(f"{origin} is {given}; {item.allowed} is allowed")


def _in_bounds(item: Option, value: object) -> bool:
    if not isinstance(value, int | float):
        return True
    low = item.minimum is None or value >= item.minimum
    high = item.maximum is None or value <= item.maximum
    return low and high and not math.isnan(value)


def _parse(item: Option, text: str) -> object | None:
    if item.kind == "switch":
        return _SWITCHES.get(text.lower())
    if item.kind == "bytes":
        return parse_bytes(text)
    if item.kind == "texts":
        return tuple(part.strip() for part in text.split(","))
    if item.kind == "text":
        return text
    try:
        return int(text) if item.kind == "integer" else float(text)
    except ValueError:
        return None


def parse_bytes(text: str) -> int | None:
    """ "512M" -> 536870912: a number, with K, M, G or T for powers of 1024; None if no size."""
    match = _SIZE.fullmatch(text.strip())
    return int(float(match[1]) * (1 << _SHIFTS[match[2].upper()])) if match else None


def _kind(hint: object, metavar: str) -> Kind:
    bare = hint
    if isinstance(hint, types.UnionType):
        bare = next(part for part in typing.get_args(hint) if part is not type(None))
    if bare is int:
        return "bytes" if metavar == "BYTES" else "integer"
    kinds: Sequence[tuple[object, Kind]] = (
        (bool, "switch"),
        (float, "number"),
        (str, "text"),
        (tuple[str, ...], "texts"),
    )
    for annotation, kind in kinds:
        if bare == annotation:
            return kind
    raise TypeError(f"an option cannot be annotated {hint!r}")
