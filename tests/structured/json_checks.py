"""Whether a text is JSON that obeys a schema: by the library `jsonschema`, and strictly.

Numbers are compared as decimals. The formats that `jsonschema` cannot check by itself are checked
here by the standard library.
"""

from __future__ import annotations

import datetime
import json
import re
from decimal import Decimal
from typing import Final

import jsonschema

_TIME: Final = re.compile(r"\d\d:\d\d:\d\d(\.\d+)?([zZ]|[+-]\d\d:\d\d)", re.ASCII)
_DURATION: Final = re.compile(
    r"P(\d+W|(?=.)(\d+Y(\d+M(\d+D)?)?|\d+M(\d+D)?|\d+D)?(T(?=\d)(\d+H(\d+M(\d+S)?)?|\d+M(\d+S)?|\d+S))?)",
    re.ASCII,
)
_LABEL: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?")
_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\s<>\"{}|\\^`]*")
_UUID: Final = re.compile(r"[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
FORMATS: Final = jsonschema.FormatChecker()


def violations(schema: object, text: str) -> list[str]:
    """What is wrong with `text`."""
    try:
        value = json.loads(text, parse_float=Decimal, parse_constant=_no_json)
        text.encode()
    except ValueError as error:
        return [f"no JSON: {error}"]
    exact = json.loads(json.dumps(schema), parse_float=Decimal)
    validator = _Validator(exact, format_checker=FORMATS)
    return [error.message for error in validator.iter_errors(value)]


def _no_json(word: str) -> object:
    raise ValueError(word)


def _is_integer(_checker: object, value: object) -> bool:
    """Of draft 6 and later: 1.0 is one."""
    if isinstance(value, Decimal):
        return -value.as_tuple().exponent <= len(str(value)) and value == value.to_integral_value()  # type: ignore[operator]
    return isinstance(value, int) and not isinstance(value, bool)


_Validator: Final = jsonschema.validators.extend(
    jsonschema.Draft202012Validator,
    type_checker=jsonschema.Draft202012Validator.TYPE_CHECKER.redefine("integer", _is_integer),
)


def _date(text: str) -> bool:
    datetime.date.fromisoformat(text)
    return len(text) == 10


def _time(text: str) -> bool:
    if not _TIME.fullmatch(text):
        return False
    datetime.time.fromisoformat(text[:8])
    return text[-1] in "zZ" or (int(text[-5:-3]) < 24 and int(text[-2:]) < 60)


def _date_time(text: str) -> bool:
    return text[10] in "Tt" and _date(text[:10]) and _time(text[11:])


def _hostname(text: str) -> bool:
    return len(text) <= 253 and all(_LABEL.fullmatch(label) for label in text.split("."))


def _email(text: str) -> bool:
    local, _, domain = text.rpartition("@")
    is_address = domain.startswith("[") and domain.endswith("]")
    return 1 <= len(local) <= 64 and len(text) <= 254 and (is_address or _hostname(domain))


for _name, _check in {
    "date": _date,
    "time": _time,
    "date-time": _date_time,
    "hostname": _hostname,
    "email": _email,
    "duration": lambda text: bool(_DURATION.fullmatch(text)),
    "uri": lambda text: bool(_URI.fullmatch(text)),
    "uuid": lambda text: bool(_UUID.fullmatch(text)),
}.items():
    FORMATS.checks(_name, raises=(ValueError, IndexError))(
        lambda value, check=_check: not isinstance(value, str) or check(value)
    )
