"""The body of `POST /v1/completions`. Knows no engine."""

from __future__ import annotations

from octavo.entrypoints.openai.bodies.body import Prompts, Unsupported, listed_prompts
from octavo.entrypoints.openai.generation.request import GenerationRequest


class CompletionRequest(GenerationRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`POST /v1/completions`."""

    prompt: Prompts
    echo: bool = False
    logprobs: int | None = None
    add_special_tokens: bool = True
    suffix: str | None = None
    prompt_embeds: Unsupported = None

    @property
    def prompts(self) -> list[str | list[int]]:
        """The prompts as a list: of texts, or of token ids. Raises `InvalidRequest`."""
        return listed_prompts(self.prompt, "prompt")
