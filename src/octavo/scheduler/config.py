"""The scheduler's bounds, checked once. Knows no option's flag."""

from __future__ import annotations

import math
from dataclasses import dataclass

from octavo.errors import ConfigError
from octavo.scheduler.step_plan import StepLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerConfig:
    """Bounds of one step and of one sequence. `eos_token_ids` are the model's end-of-text ids.

    `reserve_high_priority` is the share of slots and step tokens that only requests of a priority
    below 0 may use. `max_step_seconds` bounds the predicted time of a step in which somebody
    decodes. `page_move_seconds` is what it takes to swap one page, one way, as far as is
    known at the start; infinite where there is no swap space.

    Raises `ConfigError` if a full house of decoding sequences would not fit into one step.
    """

    max_num_seqs: int
    max_num_batched_tokens: int
    max_model_len: int
    max_logit_rows: int
    eos_token_ids: frozenset[int] = frozenset()
    reserve_high_priority: float = 0.0
    max_step_seconds: float | None = None
    page_move_seconds: float = math.inf

    def __post_init__(self) -> None:
        for name in ("max_num_seqs", "max_model_len"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)}; at least 1 is allowed")
        for name in ("max_num_batched_tokens", "max_logit_rows"):
            if getattr(self, name) < self.max_num_seqs:
                raise ConfigError(
                    f"{name} is {getattr(self, name)}; at least max_num_seqs "
                    f"({self.max_num_seqs}) is allowed, so that every running sequence gets a token"
                )
        if not 0.0 <= self.reserve_high_priority < 1.0 or self.max_unreserved_seqs < 1:
            raise ConfigError(
                f"reserve_high_priority is {self.reserve_high_priority}; a share from 0 that leaves"
                f" at least one of {self.max_num_seqs} slots to everybody is allowed"
            )

    @property
    def max_unreserved_seqs(self) -> int:
        """Slots that sequences of no high priority may fill."""
        return self.max_num_seqs - math.ceil(self.reserve_high_priority * self.max_num_seqs)

    @property
    def step_limits(self) -> StepLimits:
        num_reserved = math.floor(self.reserve_high_priority * self.max_num_batched_tokens)
        return StepLimits(
            max_tokens=self.max_num_batched_tokens,
            max_logit_rows=self.max_logit_rows,
            max_unreserved_tokens=self.max_num_batched_tokens - num_reserved,
            max_seconds=self.max_step_seconds,
        )
