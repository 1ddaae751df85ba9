"""The fields that ask for an answer of a certain form. Knows no engine."""

from __future__ import annotations

import msgspec

from octavo.entrypoints.openai.body import EngineBody, Unsupported


class ResponseFormat(msgspec.Struct, frozen=True):
    type: str


class StructuredFields(EngineBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What chat and completions share."""

    response_format: ResponseFormat | None = None
    structured_outputs: Unsupported = None
    guided_json: Unsupported = None
    guided_regex: Unsupported = None
    guided_choice: Unsupported = None
    guided_grammar: Unsupported = None
    guided_decoding_backend: Unsupported = None
    guided_whitespace_pattern: Unsupported = None
