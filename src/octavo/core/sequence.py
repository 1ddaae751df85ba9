"""One sequence: a request's tokens, how many of them are computed, and the pages that hold them.

Plain data, owned by the scheduler, read by the runner; neither knows the other.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from octavo.core.request import EngineRequest
from octavo.core.sampling_params import SamplingParams

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

PAGE_TOKENS = 16
"""Token slots in one page."""


class SequenceState(Enum):
    WAITING = "waiting"
    RUNNING = "running"
    PREEMPTED = "preempted"
    FINISHED = "finished"


@dataclass(slots=True, eq=False)
class Sequence:
    """`token_ids` is the prompt and then the answer. Tokens [0, num_computed_tokens) have their
    keys and values in `page_table`'s pages: of each stripe one of each group of layers, or NO_PAGE
    (`core.page_groups`). `num_pages` of its entries are pages. `seed` is drawn once, so that
    preemption and batching change nothing. `mirostat_mu` is what mirostat has come to in bits, None
    before its first draw; kept here, it outlives preemption; `pooled` likewise is what the computed
    tokens come to, of a sequence that becomes a vector. `seniority` is its place in the order of
    first admissions.
    """

    request: EngineRequest
    index: int
    token_ids: list[int]
    num_prompt_tokens: int
    seed: int
    state: SequenceState = SequenceState.WAITING
    num_computed_tokens: int = 0
    page_table: list[int] = field(default_factory=list)
    num_pages: int = 0
    num_cached_tokens: int = 0
    num_preemptions: int = 0
    mirostat_mu: float | None = None
    pooled: npt.NDArray[np.float64] | None = None
    seniority: tuple[int, int] = (0, 0)
    first_scheduled_time: float = 0.0
    first_token_time: float = 0.0
    params: SamplingParams = field(init=False)
    """Those of `request`, which is not exchanged: a field, as every step asks for it often."""

    def __post_init__(self) -> None:
        self.params = self.request.sampling_params

    @property
    def key(self) -> tuple[str, int]:
        return (self.request.request_id, self.index)

    @property
    def num_tokens(self) -> int:
        return len(self.token_ids)

    @property
    def num_output_tokens(self) -> int:
        return len(self.token_ids) - self.num_prompt_tokens

    @property
    def is_finished(self) -> bool:
        return self.state is SequenceState.FINISHED
