"""The fields that ask for an answer of a certain form. Knows no engine."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from octavo.entrypoints.openai.bodies.body import EngineBody

Document = dict[str, Any]
"""A JSON document whose inside is somebody else's to check."""


class JsonSchemaFormat(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`strict` changes nothing: an answer always keeps to its schema."""

    name: str | None = None
    description: str | None = None
    schema: Document | bool | None = None
    strict: bool | None = None


class ResponseFormat(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """OpenAI's, with vLLM's structural tags, and llama.cpp's schema beside "json_object"."""

    type: Literal["text", "json_object", "json_schema", "structural_tag"]
    json_schema: JsonSchemaFormat | None = None
    schema: Document | None = None
    structures: list[Document] | None = None
    triggers: list[str] | None = None


class StructuredOutputsBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """vLLM's `structured_outputs`."""

    json: Document | str | bool | None = None
    regex: str | None = None
    choice: list[str] | None = None
    grammar: str | None = None
    json_object: bool | None = None
    structural_tag: Document | str | None = None
    whitespace_pattern: str | None = None
    disable_any_whitespace: bool = False
    disable_additional_properties: bool = False


class StructuredFields(EngineBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What chat and completions share. `guided_*` are the names of before `structured_outputs`; the
    back end does not matter, since every one of them promises the same."""

    response_format: ResponseFormat | None = None
    structured_outputs: StructuredOutputsBody | None = None
    guided_json: Document | str | bool | None = None
    guided_regex: str | None = None
    guided_choice: list[str] | None = None
    guided_grammar: str | None = None
    guided_json_object: bool | None = None
    guided_whitespace_pattern: str | None = None
    guided_decoding_backend: (
        Literal["auto", "guidance", "llguidance", "lm-format-enforcer", "outlines", "xgrammar"]
        | None
    ) = None
