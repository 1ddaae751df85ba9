"""What form an answer must have. Plain data with the limits that need no parser and that no option
raises.

Knows no grammar library: `structured` translates and checks what is asked for here.
"""

from __future__ import annotations

import json
from typing import Final, Literal

import msgspec

from octavo.errors import InvalidRequest

StructuredKind = Literal["json", "regex", "choice", "grammar", "json_object", "structural_tag"]

MAX_SCHEMA_BYTES: Final = 1024 * 1024
MAX_SCHEMA_DEPTH: Final = 32
"""Schemas within schemas."""
MAX_GRAMMAR_BYTES: Final = 1024 * 1024
MAX_REGEX_BYTES: Final = 64 * 1024
MAX_CHOICES: Final = 16 * 1024
MAX_WHITESPACE_PATTERN_BYTES: Final = 256
KINDS: Final[tuple[StructuredKind, ...]] = (
    "json",
    "regex",
    "choice",
    "grammar",
    "json_object",
    "structural_tag",
)
_MAX_BYTES: Final = {
    "json": MAX_SCHEMA_BYTES,
    "structural_tag": MAX_SCHEMA_BYTES,
    "grammar": MAX_GRAMMAR_BYTES,
    "regex": MAX_REGEX_BYTES,
}

_JSON_OPTIONS: Final = (
    "disable_any_whitespace",
    "whitespace_pattern",
    "disable_additional_properties",
)


class StructuredOutputs(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Names are vLLM's. Exactly one of the first six is given. Raises `InvalidRequest`.

    `json` and `structural_tag` are the text of a JSON document (a `json` that is a dict becomes
    one); `grammar` is Lark, or GBNF as llama.cpp writes it. JSON may have white space between its
    parts, of the form `whitespace_pattern` if that is given, or none with `disable_any_whitespace`.
    With `disable_additional_properties` objects whose properties are named have no others.
    """

    json: str | dict[str, object] | None = None
    regex: str | None = None
    choice: list[str] | None = None
    grammar: str | None = None
    json_object: bool | None = None
    structural_tag: str | None = None
    disable_any_whitespace: bool = False
    whitespace_pattern: str | None = None
    disable_additional_properties: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.json, dict):
            msgspec.structs.force_setattr(self, "json", _json_text(self.json))
        given = [kind for kind in KINDS if getattr(self, kind) not in (None, False)]
        if len(given) != 1:
            raise _invalid(
                f"has {' and '.join(given) or 'nothing'}; exactly one of {', '.join(KINDS)} is "
                "allowed"
            )
        for kind, most in _MAX_BYTES.items():
            self._check_text(kind, most)
        self._check_text("whitespace_pattern", MAX_WHITESPACE_PATTERN_BYTES)
        self._check_choice()
        self._check_json_options()

    @property
    def kind(self) -> StructuredKind:
        return next(kind for kind in KINDS if getattr(self, kind) not in (None, False))

    def _check_text(self, name: str, max_bytes: int) -> None:
        value = getattr(self, name)
        if value is None:
            return
        num_bytes = _num_bytes(name, value)
        if num_bytes > max_bytes:
            raise _invalid(f"{name} has {num_bytes} bytes; at most {max_bytes} are allowed", name)

    def _check_json_options(self) -> None:
        if self.disable_any_whitespace and self.whitespace_pattern is not None:
            raise _invalid("has both disable_any_whitespace and whitespace_pattern")
        for name in _JSON_OPTIONS:
            if getattr(self, name) and self.kind not in ("json", "json_object"):
                raise _invalid(f"{name} is given with {self.kind}; it is about JSON", name)

    def _check_choice(self) -> None:
        if self.choice is None:
            return
        if not isinstance(self.choice, list) or not 1 <= len(self.choice) <= MAX_CHOICES:
            raise _invalid(f"choice must be a list of 1 to {MAX_CHOICES} strings", "choice")
        num_bytes = sum(_num_bytes("choice", text) for text in self.choice)
        if num_bytes > MAX_GRAMMAR_BYTES:
            raise _invalid(
                f"choice has {num_bytes} bytes; at most {MAX_GRAMMAR_BYTES} are allowed", "choice"
            )


def _json_text(value: dict[str, object]) -> str:
    try:
        return json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise _invalid(f"json is no JSON document: {error}", "json") from None


def _num_bytes(name: str, value: object) -> int:
    """Of a string that is Unicode text."""
    if not isinstance(value, str):
        raise _invalid(f"{name} must be a string", name)
    try:
        return len(value.encode())
    except UnicodeEncodeError:
        raise _invalid(f"{name} has half of a surrogate pair", name) from None


def _invalid(what: str, name: str | None = None) -> InvalidRequest:
    param = "structured_outputs" if name is None else f"structured_outputs.{name}"
    return InvalidRequest(f"structured_outputs {what}" if name is None else what, param=param)
