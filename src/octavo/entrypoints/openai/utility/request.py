"""The bodies of the routes that generate nothing. Knows no engine."""

from __future__ import annotations

from typing import Any

from octavo.entrypoints.openai.bodies.body import RequestBody


class TokenizeRequest(RequestBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`POST /tokenize`: exactly one of `prompt` and `messages`."""

    prompt: str | None = None
    messages: list[dict[str, Any]] | None = None
    add_special_tokens: bool = True
    add_generation_prompt: bool | None = None
    continue_final_message: bool = False
    documents: list[dict[str, Any]] | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    return_token_strs: bool = False


class DetokenizeRequest(RequestBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`POST /detokenize`."""

    tokens: list[int]


class AbortBody(RequestBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`POST /abort_requests`: ids as responses carry them, or as clients gave in `request_id`."""

    request_ids: list[str]
