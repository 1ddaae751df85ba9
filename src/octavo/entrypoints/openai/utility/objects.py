"""The bodies that the routes around generation answer with. Data only; knows no engine."""

from __future__ import annotations

from typing import Any, Literal

import msgspec


class ModelCard(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str = "octavo"
    root: str
    parent: None = None
    max_model_len: int
    permission: list[None] = []


class ModelList(msgspec.Struct, frozen=True, kw_only=True):
    object: Literal["list"] = "list"
    data: list[ModelCard]


class TokenizeBody(msgspec.Struct, frozen=True, kw_only=True):
    count: int
    max_model_len: int
    tokens: list[int]
    token_strs: list[str] | None = None


class DetokenizeBody(msgspec.Struct, frozen=True):
    prompt: str


class TokenizerInfoBody(msgspec.Struct, frozen=True, kw_only=True):
    """What clients that count tokens or render chats by themselves ask for, with vLLM's names.
    A token that the model has not, and a template, are null."""

    bos_token: str | None
    eos_token: str | None
    add_bos_token: bool
    model_max_length: int
    chat_template: str | None


class AbortedBody(msgspec.Struct, frozen=True):
    num_aborted: int


class VersionBody(msgspec.Struct, frozen=True):
    version: str


class LoadBody(msgspec.Struct, frozen=True):
    """Requests that have been let in and not answered yet, as vLLM counts them."""

    server_load: int


class ServerInfoBody(msgspec.Struct, frozen=True, kw_only=True):
    """Options by name, as the server took or chose them; none that is private."""

    version: str
    engine_config: dict[str, Any]
    server_config: dict[str, Any]
