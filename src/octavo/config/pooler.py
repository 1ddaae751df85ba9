"""The pooler's options in vLLM's form, a JSON object, read and checked. Knows no model."""

from __future__ import annotations

import json
from dataclasses import dataclass

from octavo.errors import ConfigError

POOLING_CHOICES = ("auto", "mean", "last", "cls")
POOLER_KEYS = (
    *("pooling_type", "seq_pooling_type"),
    *("normalize", "use_activation"),
    "dimensions",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolerOptions:
    """`pooling_type` is of POOLING_CHOICES; None where nothing is given."""

    pooling_type: str | None = None
    normalize: bool = True
    dimensions: int | None = None


def read_pooler_options(text: str, *, origin: str) -> PoolerOptions:
    """`text` is what `origin` gave: an object of POOLER_KEYS, or nothing. Raises `ConfigError`."""
    given = _object(text, origin)
    values = {name: value for name, value in given.items() if value is not None}
    for name in values:
        if name not in POOLER_KEYS:
            raise ConfigError(
                f"{origin} has {name!r}; the keys {', '.join(POOLER_KEYS)} are allowed"
            )
    normalize = values.get("normalize", values.get("use_activation", True))
    if not isinstance(normalize, bool):
        raise ConfigError(f"{origin}: normalize is {normalize!r}; true or false is allowed")
    dimensions = values.get("dimensions")
    if dimensions is not None and (type(dimensions) is not int or dimensions < 1):
        raise ConfigError(f"{origin}: dimensions is {dimensions!r}; an integer from 1 is allowed")
    return PoolerOptions(
        pooling_type=_pooling_type(values, origin), normalize=normalize, dimensions=dimensions
    )


def _object(text: str, origin: str) -> dict[str, object]:
    try:
        value = json.loads(text or "{}")
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{origin} is {text[:80]!r}, which is no JSON: {error}") from None
    if not isinstance(value, dict):
        raise ConfigError(f"{origin} is {text[:80]!r}; a JSON object is allowed")
    return value


def _pooling_type(values: dict[str, object], origin: str) -> str | None:
    """vLLM writes it in capitals."""
    given = values.get("pooling_type", values.get("seq_pooling_type"))
    if given is None:
        return None
    if not isinstance(given, str) or given.lower() not in POOLING_CHOICES[1:]:
        raise ConfigError(
            f"{origin}: pooling_type is {given!r}; one of {', '.join(POOLING_CHOICES[1:])} is"
            " allowed"
        )
    return given.lower()
