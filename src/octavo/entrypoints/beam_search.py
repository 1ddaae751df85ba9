"""What `LLM.beam_search` takes and returns, under vLLM's names. The engine does the search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from octavo.core.sampling_params import SamplingParams
from octavo.entrypoints.results import CompletionOutput, RequestOutput
from octavo.tokenization.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True, kw_only=True)
class BeamSearchParams:
    """All `beam_width` beams are answers. `temperature` must be 0: beams are not drawn."""

    beam_width: int
    max_tokens: int
    ignore_eos: bool = False
    temperature: float = 0.0
    length_penalty: float = 1.0
    include_stop_str_in_output: bool = False
    early_stopping: bool | Literal["never"] = False

    def sampling_params(self) -> SamplingParams:
        """Raises `InvalidRequest` naming the first bad field."""
        return SamplingParams(
            use_beam_search=True,
            n=self.beam_width,
            max_tokens=self.max_tokens,
            ignore_eos=self.ignore_eos,
            temperature=self.temperature,
            length_penalty=self.length_penalty,
            include_stop_str_in_output=self.include_stop_str_in_output,
            early_stopping=self.early_stopping,
        )


@dataclass(frozen=True, slots=True)
class BeamSearchSequence:
    """`tokens` and `text` begin with the prompt. A stop token is in them only if asked for, but
    always in `cum_logprob`, the sum of the answer's log probabilities."""

    tokens: list[int]
    text: str
    cum_logprob: float
    finish_reason: str
    stop_reason: int | str | None


@dataclass(frozen=True, slots=True)
class BeamSearchOutput:
    """The beams of one prompt, best first."""

    sequences: list[BeamSearchSequence]


def beams_of(
    result: RequestOutput, params: BeamSearchParams, tokenizer: Tokenizer
) -> BeamSearchOutput:
    """A finished request as vLLM shows it."""

    def sequence(answer: CompletionOutput) -> BeamSearchSequence:
        ids = answer.token_ids
        is_hidden = answer.finish_reason == "stop" and not params.include_stop_str_in_output
        tokens = result.prompt_token_ids + (ids[:-1] if is_hidden else ids)
        assert answer.cumulative_logprob is not None
        assert answer.finish_reason is not None
        return BeamSearchSequence(
            tokens=tokens,
            text=tokenizer.decode(tokens, skip_special_tokens=False),
            cum_logprob=answer.cumulative_logprob,
            finish_reason=answer.finish_reason,
            stop_reason=answer.stop_reason,
        )

    return BeamSearchOutput([sequence(answer) for answer in result.outputs])
