"""The body of `POST /v1/chat/completions`. Knows no engine."""

from __future__ import annotations

from typing import Any, Literal

from octavo.entrypoints.openai.bodies.body import Unsupported
from octavo.entrypoints.openai.chat.tool_fields import ToolFields


class ChatRequest(ToolFields, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`POST /v1/chat/completions`. The template decides what the messages' own fields mean."""

    messages: list[dict[str, Any]]
    logprobs: bool | None = None
    top_logprobs: int | None = None
    max_completion_tokens: int | None = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool = False
    add_special_tokens: bool = True
    echo: bool = False
    documents: list[dict[str, Any]] | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    modalities: list[Literal["text"]] | None = None
    audio: Unsupported = None
    prediction: Unsupported = None
    verbosity: Unsupported = None
    web_search_options: Unsupported = None
    mm_processor_kwargs: Unsupported = None
    media_io_kwargs: Unsupported = None
    chat_template: Unsupported = None
