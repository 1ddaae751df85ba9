"""The sampling options of the terminal commands. Greedy unless asked otherwise: answers repeat."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from octavo.config.options import check, option
from octavo.core.request import EngineRequest
from octavo.core.sampling_params import SamplingParams

DEFAULT_MAX_TOKENS = 1024
"""Where nobody says how long an answer may be: a base model would fill the whole context."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingOptions:
    """Ranges are checked again, and in full, by `SamplingParams`."""

    temperature: float = option(
        0.0, "How freely tokens are drawn; 0 takes the most probable one.", minimum=0.0
    )
    top_p: float = option(1.0, "Draw from the smallest set with this probability.", maximum=1.0)
    top_k: int = option(0, "Draw from so many most probable tokens; 0 means all.", minimum=-1)
    min_p: float = option(
        0.0, "Leave out tokens below this share of the most probable one.", minimum=0.0, maximum=1.0
    )
    repetition_penalty: float = option(
        1.0, "Above 1 makes tokens that occurred less probable.", minimum=0.0
    )
    max_tokens: int | None = option(
        None,
        f"Length of an answer in tokens, at most. Default: {DEFAULT_MAX_TOKENS}, if they fit.",
        minimum=1,
    )
    stop: tuple[str, ...] = option((), "End the answer before this text. May be repeated.")

    def __post_init__(self) -> None:
        check(self)

    def params(self) -> SamplingParams:
        """The same wishes as the engine takes them."""
        return SamplingParams(
            temperature=self.temperature,
            top_p=self.top_p,
            top_k=self.top_k,
            min_p=self.min_p,
            repetition_penalty=self.repetition_penalty,
            max_tokens=self.max_tokens,
            stop=list(self.stop) or None,
        )


def limited(request: EngineRequest, asked: SamplingParams) -> EngineRequest:
    """`request`, made of `asked`, with the default length if none was asked for."""
    params = request.sampling_params
    if asked.max_tokens is not None or params.max_tokens is None:
        return request
    length = max(min(params.max_tokens, DEFAULT_MAX_TOKENS), params.min_tokens)
    return replace(request, sampling_params=replace(params, max_tokens=length))
