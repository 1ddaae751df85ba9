"""The body of `POST /v1/completions`. Knows no engine."""

from __future__ import annotations

from typing import cast

from octavo.entrypoints.openai.body import Unsupported
from octavo.entrypoints.openai.generation_request import GenerationRequest
from octavo.errors import InvalidRequest


class CompletionRequest(GenerationRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`POST /v1/completions`."""

    prompt: str | list[str | int | list[int]]
    echo: bool = False
    logprobs: int | None = None
    add_special_tokens: bool = True
    suffix: Unsupported = None
    prompt_embeds: Unsupported = None

    @property
    def prompts(self) -> list[str | list[int]]:
        """The prompts as a list: of texts, or of token ids. Raises `InvalidRequest`."""
        prompt = self.prompt
        if isinstance(prompt, str):
            return [prompt]
        kinds = {type(item) for item in prompt}
        if kinds == {int}:
            return [cast(list[int], prompt)]
        if kinds in ({str}, {list}):
            return cast(list[str | list[int]], prompt)
        given = "empty" if not kinds else "a mixed list"
        raise InvalidRequest(
            f"prompt is {given}; a string, a list of strings, a list of token ids or a list of "
            "lists of token ids is allowed, none of the lists empty",
            param="prompt",
        )
