"""How large the parts of one request may be: options of the server, with their defaults.

Each is enforced before any work is done, at the limit and not beyond. Knows nothing of HTTP.
"""

from __future__ import annotations

from dataclasses import dataclass

from octavo.config.options import option
from octavo.core.sampling_params import (
    MAX_LOGIT_BIAS,
    MAX_LOGPROBS,
    MAX_N,
    MAX_STOP_CHARS,
    MAX_STOP_REGEXES,
    MAX_STOP_STRINGS,
)
from octavo.core.token_filters import MAX_ALLOWED_TOKEN_IDS, MAX_BAD_WORDS


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestLimits:
    """Upper bounds are those of `SamplingParams`, where a field is one of its."""

    max_body_bytes: int = option(
        4 * 1024 * 1024, "Largest request body.", metavar="BYTES", minimum=1
    )
    max_header_bytes: int = option(
        32 * 1024, "Largest request header block.", metavar="BYTES", minimum=1024
    )
    max_header_lines: int = option(100, "Headers of one request, at most.", minimum=1)
    max_json_depth: int = option(64, "Levels of nesting of a body, at most.", minimum=2, maximum=64)
    max_sequences_per_request: int = option(64, "Prompts x n of one request, at most.", minimum=1)
    max_inputs_per_request: int = option(
        2048,
        "Texts of one request for embeddings, scores or reranking, at most. So many of them as"
        " MAX_SEQUENCES_PER_REQUEST says are in the engine at the same time.",
        minimum=1,
    )
    max_messages: int = option(2048, "Messages of one conversation, at most.", minimum=1)
    max_tools: int = option(128, "Tools of one request, at most.", minimum=0)
    max_documents: int = option(128, "Documents of one request, at most.", minimum=0)
    max_n: int = option(16, "Answers per prompt, at most.", minimum=1, maximum=MAX_N)
    max_stop_strings: int = option(
        16,
        "Stop strings of one request, at most.",
        minimum=0,
        maximum=MAX_STOP_STRINGS,
    )
    max_stop_regexes: int = option(
        4, "Regexes of stop_regex of one request, at most.", minimum=0, maximum=MAX_STOP_REGEXES
    )
    max_stop_chars: int = option(
        256,
        "Characters of one stop string or stop_regex, at most.",
        minimum=1,
        maximum=MAX_STOP_CHARS,
    )
    max_logit_bias: int = option(
        1024, "Entries of logit_bias, at most.", minimum=0, maximum=MAX_LOGIT_BIAS
    )
    max_logprobs: int = option(
        20, "Alternatives per token with logprobs, at most.", minimum=0, maximum=MAX_LOGPROBS
    )
    max_bad_words: int = option(
        128, "Entries of bad_words, at most.", minimum=0, maximum=MAX_BAD_WORDS
    )
    max_allowed_token_ids: int = option(
        1024,
        "Entries of allowed_token_ids, at most.",
        minimum=1,
        maximum=MAX_ALLOWED_TOKEN_IDS,
    )
