"""Whether a plugin keeps its contract, told to its author: a line per check. Knows no contract."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import ParamSpec

Given = ParamSpec("Given")


class NonConforming(AssertionError):
    """The plugin broke its contract. The text says what was found."""


def demand(holds: bool, complaint: str) -> None:
    if not holds:
        raise NonConforming(complaint)


def verdict(check: Callable[Given, None], /, *given: Given.args, **further: Given.kwargs) -> str:
    """Empty if what was given passes, else what went wrong."""
    try:
        check(*given, **further)
    except Exception as error:  # the plugin is foreign code, which may raise anything
        return f"{type(error).__name__}: {error}"
    return ""


def report(
    checks: Sequence[Callable[Given, None]], /, *given: Given.args, **further: Given.kwargs
) -> int:
    """Writes one line per check. 1 if any fails, else 0."""
    complaints = [verdict(check, *given, **further) for check in checks]
    for check, complaint in zip(checks, complaints, strict=True):
        name = check.__name__.removeprefix("check_").replace("_", " ")
        sys.stdout.write(f"FAILED  {name}: {complaint}\n" if complaint else f"ok      {name}\n")
    return int(any(complaints))
