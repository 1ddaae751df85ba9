"""Whether the parts of a decoded body are within the server's limits, before any work is done."""

from __future__ import annotations

from octavo.config.request_limits import RequestLimits
from octavo.entrypoints.openai.bodies.body import RequestBody
from octavo.errors import InvalidRequest


def check_limits(body: RequestBody, limits: RequestLimits) -> None:
    """Raises `InvalidRequest` naming the field, what was given, and the option."""
    for name, most, option in (
        ("messages", limits.max_messages, "max-messages"),
        ("tools", limits.max_tools, "max-tools"),
        ("documents", limits.max_documents, "max-documents"),
        ("stop", limits.max_stop_strings, "max-stop-strings"),
        ("stop_regex", limits.max_stop_regexes, "max-stop-regexes"),
        ("logit_bias", limits.max_logit_bias, "max-logit-bias"),
        ("bad_words", limits.max_bad_words, "max-bad-words"),
        ("allowed_token_ids", limits.max_allowed_token_ids, "max-allowed-token-ids"),
    ):
        value = getattr(body, name, None)
        if isinstance(value, list | dict) and len(value) > most:
            raise _refused(name, f"has {len(value)} entries", most, option)
    _check_numbers(body, limits)
    for name in ("stop", "stop_regex"):
        texts = getattr(body, name, None) or ()
        longest = max(map(len, (texts,) if isinstance(texts, str) else texts), default=0)
        if longest > limits.max_stop_chars:
            given = f"has {longest} characters"
            raise _refused(name, given, limits.max_stop_chars, "max-stop-chars")


def _check_numbers(body: RequestBody, limits: RequestLimits) -> None:
    has_beams = getattr(body, "use_beam_search", False)  # of which there may be more
    for name, most, option in (
        ("n", limits.max_n, "max-n"),
        ("logprobs", limits.max_logprobs, "max-logprobs"),
        ("top_logprobs", limits.max_logprobs, "max-logprobs"),
        ("prompt_logprobs", limits.max_logprobs, "max-logprobs"),
    ):
        value = getattr(body, name, None)
        if not isinstance(value, int) or isinstance(value, bool) or (name == "n" and has_beams):
            continue
        if value > most:
            raise _refused(name, f"is {value}", most, option)


def _refused(name: str, given: str, most: int, option: str) -> InvalidRequest:
    return InvalidRequest(f"{name} {given}; at most {most} is allowed (see --{option})", param=name)
