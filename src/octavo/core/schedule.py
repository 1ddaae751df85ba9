"""Where the scheduler and the runner meet: what one step computes, and what came out of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from octavo.core.outputs import TokenLogprobs
from octavo.core.sequence import Sequence
from octavo.core.step_load import StepLoad, num_attended_tokens

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


class MoveKind(Enum):
    COPY = "copy"
    SWAP_OUT = "swap_out"
    SWAP_IN = "swap_in"


class PageMove(NamedTuple):
    """One page's content, of all layers, goes elsewhere. `source` and `target` are pages, but for
    the target of SWAP_OUT and the source of SWAP_IN, which are slots of the swap space."""

    kind: MoveKind
    source: int
    target: int


@dataclass(slots=True)
class ScheduledSequence:
    """Compute tokens [start, start + num_tokens) of `sequence`; its page table already covers them.

    `samples` is true when the last of them is the sequence's last token, so that a new one is
    drawn. `wants_prompt_logprobs`: logits of every one of these rows are needed.
    """

    sequence: Sequence
    start: int
    num_tokens: int
    samples: bool
    wants_prompt_logprobs: bool = False


@dataclass(slots=True)
class ScheduledStep:
    """Decodes first, then prompt chunks. `num_tokens` is their sum, within the token budget.

    `moves` happen before anything is computed, one after the other: a later one may overwrite what
    an earlier one has read. There may be moves without sequences.
    """

    sequences: list[ScheduledSequence] = field(default_factory=list)
    num_tokens: int = 0
    moves: list[PageMove] = field(default_factory=list)


def load_of(step: ScheduledStep) -> StepLoad:
    num_logit_rows = decode_attended = prompt_attended = prompt_context = 0
    for scheduled in step.sequences:
        num_logit_rows += scheduled.samples
        num_tokens = scheduled.num_tokens
        if num_tokens == 1:
            decode_attended += scheduled.start + 1
        else:
            prompt_attended += num_attended_tokens(scheduled.start, num_tokens)
            prompt_context += scheduled.start + num_tokens
    return StepLoad(
        step.num_tokens,
        len(step.sequences),
        num_logit_rows,
        decode_attended,
        prompt_attended,
        decode_attended + prompt_context,
    )


class Candidates(NamedTuple):
    """The tokens that a beam may go on with, best first, and their log probabilities after bias,
    penalties and bans. At least one."""

    token_ids: list[int]
    logprobs: list[float]


@dataclass(slots=True)
class SequenceResult:
    """`token_id` is None when the sequence did not sample. `prompt_logprobs[i]` belongs to the
    prompt token at position start + i + 1. A beam has `candidates` instead of a token.
    `mirostat_mu` is the sequence's next, None without mirostat. Of a sequence that becomes a vector
    `pooled` is its next, and `embedding` comes with its last token: float32, little-endian. `error`
    says why the token is not
    what was asked for; the sequence then ends with it."""

    token_id: int | None = None
    candidates: Candidates | None = None
    logprobs: TokenLogprobs | None = None
    prompt_logprobs: list[TokenLogprobs] | None = None
    mirostat_mu: float | None = None
    pooled: npt.NDArray[np.float64] | None = None
    embedding: bytes | None = None
    error: str = ""


@dataclass(slots=True)
class StepResult:
    """One result per scheduled sequence, in the same order.

    `num_undefined_rows` of the drawn tokens had no usable logit (all NaN or -inf) to choose by.
    `native_cpu_seconds`: processor time of the calling thread in native code. `move_seconds`: how
    long the step's page moves took.
    """

    results: list[SequenceResult]
    num_undefined_rows: int = 0
    native_cpu_seconds: float = 0.0
    move_seconds: float = 0.0
