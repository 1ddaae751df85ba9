"""What a load generator sends: prompts of drawn lengths with a shared beginning, and when."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from octavo.bench.lengths import Lengths

TEXT = (
    "the of and to in is that for it as was with be by on not he his but at are this have from or "
    "had an they which one you were all her she there would their we him been has when who will no "
    "more if out so up said what its about than into them can only other time new some could these "
    "two may first then do any like my now over such our man me even most made after also did many "
    "off before must well back through years much where your way down should because long each"
)
WORDS = tuple(TEXT.split())
"""Frequent English words: with a blank in front, one token in nearly every vocabulary."""


@dataclass(frozen=True, slots=True)
class LoadRequest:
    """`prompt` has about `num_prompt_tokens` tokens, by words; the server's count is exact."""

    prompt: str
    num_prompt_tokens: int
    max_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """`num_prefix_tokens` of each prompt, on top of its drawn length, are the same for all."""

    num_prompts: int
    input_lengths: Lengths
    output_lengths: Lengths
    num_prefix_tokens: int = 0
    seed: int = 0

    def requests(self) -> list[LoadRequest]:
        source = random.Random(self.seed)
        prefix = source.choices(WORDS, k=self.num_prefix_tokens)
        made = []
        for _ in range(self.num_prompts):
            words = prefix + source.choices(WORDS, k=self.input_lengths.draw(source))
            tokens = self.output_lengths.draw(source)
            made.append(LoadRequest(" ".join(words), len(words), tokens))
        return made


def poisson_arrivals(num_requests: int, rate: float, seed: int) -> Iterator[float]:
    """Seconds from the start at which each request goes out, ascending, `rate` a second."""
    source = random.Random(seed)
    at = 0.0
    for _ in range(num_requests):
        yield at
        at += source.expovariate(rate)
