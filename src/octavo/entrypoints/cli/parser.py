"""argparse with mistakes told in one line: what was wrong, what looks like it, where help is.

Knows no command and no option.
"""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Sequence
from typing import NoReturn, TypeVar

MISUSED = 2
Namespace = TypeVar("Namespace")


class Parser(argparse.ArgumentParser):
    """Its subcommands are of the same class, so that the innermost one knows the near flags."""

    def __init__(self, **keywords: object) -> None:
        # Abbreviations would turn into other flags when new ones come.
        super().__init__(**keywords, allow_abbrev=False)  # type: ignore[arg-type]

    def parse_known_args(  # type: ignore[override]  # argparse declares overloads of the same
        self, args: Sequence[str] | None = None, namespace: Namespace | None = None
    ) -> tuple[Namespace, list[str]]:
        """None are unknown in the end. The last word may stand behind flags, though argparse wants
        an optional positional right behind the one before it: `run MODEL --seed 1 PROMPT`. The
        default `last_word` names the positional that a single left-over word belongs to."""
        parsed, rest = super().parse_known_args(args, namespace)
        last_word = self.get_default("last_word")
        is_one_word = len(rest) == 1 and not rest[0].startswith("-")
        if last_word and is_one_word and getattr(parsed, last_word) is None:
            setattr(parsed, last_word, rest.pop())
        if rest:
            self.error(f"unrecognized arguments: {' '.join(rest)}{self._near(rest[0])}")
        return parsed, rest  # type: ignore[return-value]

    def error(self, message: str) -> NoReturn:
        self.exit(MISUSED, f"{self.prog}: error: {message} (`{self.prog} --help` tells more)\n")

    def _near(self, word: str) -> str:
        name = word.partition("=")[0]
        near = difflib.get_close_matches(name, self._option_string_actions, n=1)
        return f"; did you mean {near[0]}?" if near else ""
