"""What is measured of every contender, and what a contender is. Plain data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

Rates = dict[str, float]
"""Tokens per second by what was measured: "prefill", "decode", "decode batch N"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Prefill of `prompt_tokens`; `answer_tokens` steps of one sequence from an empty context; and
    for each batch size, `steps` steps of so many sequences that hold `context` tokens each."""

    prompt_tokens: int
    answer_tokens: int
    batch_sizes: Sequence[int]
    context: int
    steps: int


class Contender(Protocol):
    """Costs no processor time between calls of `measure`."""

    @property
    def name(self) -> str: ...
    def measure(self, plan: Plan) -> Rates: ...
    def close(self) -> None: ...
