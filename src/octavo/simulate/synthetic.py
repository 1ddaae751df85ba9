"""Traces from a recipe: arrivals, lengths, tenants and shared beginnings, drawn with one seed."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from octavo.bench.lengths import Lengths, LogNormal
from octavo.simulate.arrivals import Arrivals, Renewal
from octavo.simulate.trace import TraceRequest

LENGTHS: Mapping[str, tuple[Lengths, Lengths]] = MappingProxyType(
    {
        "sharegpt": (LogNormal(75, 1.4, 1024), LogNormal(250, 1.0, 1024)),
        "alpaca": (LogNormal(17, 0.5, 512), LogNormal(38, 0.95, 512)),
        "azure_conversation": (LogNormal(1020, 1.0, 4096), LogNormal(129, 1.0, 1024)),
    }
)
"""Prompt and answer lengths in tokens, shaped like published traces. The means of `sharegpt` and
`alpaca` are those of Kwon et al. 2023 (161 and 338; 19 and 58), the medians of
`azure_conversation` those of Patel et al. 2024 (Splitwise); that they are lognormal, and how wide,
is our choice."""


POISSON = Renewal(1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """`rate` is requests per second of all tenants together; each has its share of them.

    Each prompt begins with one of `num_prefixes` texts of `num_prefix_tokens` (on top of its drawn
    length), the popular ones more often (Zipf). `max_tokens` None: as long as the longest answer.
    """

    num_requests: int
    rate: float
    input_lengths: Lengths
    output_lengths: Lengths
    arrivals: Arrivals = POISSON
    tenants: Mapping[str, float] = field(default_factory=lambda: {"": 1.0})
    num_prefixes: int = 0
    num_prefix_tokens: int = 0
    max_tokens: int | None = None
    timeout_seconds: float | None = None
    seed: int = 0


def make_trace(recipe: Recipe) -> list[TraceRequest]:
    """In the order of arrival. Times, lengths and names come from streams of their own, so that a
    change of one leaves the others as they are."""
    clock, sizes, names = (random.Random(f"{recipe.seed}/{what}") for what in "tln")
    times = itertools.islice(recipe.arrivals.times(recipe.rate, clock), recipe.num_requests)
    return [_request(recipe, at, sizes, names) for at in times]


def _request(recipe: Recipe, at: float, sizes: random.Random, names: random.Random) -> TraceRequest:
    num_prompt_tokens = recipe.input_lengths.draw(sizes)
    num_answer_tokens = recipe.output_lengths.draw(sizes)
    (tenant,) = names.choices(list(recipe.tenants), list(recipe.tenants.values()))
    prefix: tuple[tuple[int, int], ...] = ()
    if recipe.num_prefixes and recipe.num_prefix_tokens:
        weights = [1 / (rank + 1) for rank in range(recipe.num_prefixes)]
        (name,) = names.choices(range(recipe.num_prefixes), weights)
        prefix = ((name, recipe.num_prefix_tokens),)
        num_prompt_tokens += recipe.num_prefix_tokens
    return TraceRequest(
        arrival_seconds=at,
        num_prompt_tokens=num_prompt_tokens,
        num_answer_tokens=num_answer_tokens,
        tenant=tenant,
        prefix=prefix,
        max_tokens=recipe.max_tokens,
        timeout_seconds=recipe.timeout_seconds,
    )
