"""Log probabilities in the wire's three shapes. Knows token bytes, but no engine and no stream."""

from __future__ import annotations

import codecs
import math
from collections.abc import Iterable, Sequence
from typing import Protocol

from octavo.core.outputs import TokenLogprobs
from octavo.entrypoints.openai.generation.objects import (
    ChatLogprob,
    ChatLogprobs,
    CompletionLogprobs,
    PromptLogprob,
    PromptLogprobs,
    TopLogprob,
)
from octavo.entrypoints.results import LOWEST_LOGPROB


class TokenSpelling(Protocol):
    """What is asked of a tokenizer here."""

    def token_bytes(self, token_id: int) -> bytes: ...


class TokenIdSpelling:
    """Names tokens by their ids, as vLLM does with `return_tokens_as_token_ids`."""

    def __init__(self, spelling: TokenSpelling) -> None:
        self._spelling = spelling

    def token_bytes(self, token_id: int) -> bytes:
        return f"token_id:{token_id}".encode()

    def text_bytes(self, token_id: int) -> bytes:
        """What the token adds to the text all the same."""
        return self._spelling.token_bytes(token_id)


def _finite(logprob: float) -> float:
    return logprob if math.isfinite(logprob) else LOWEST_LOGPROB


def token_text(spelling: TokenSpelling, token_id: int) -> str:
    """One token on its own; bytes that are no whole character become replacement characters."""
    return spelling.token_bytes(token_id).decode("utf-8", errors="replace")


def chat_logprobs(spelling: TokenSpelling, entries: Iterable[TokenLogprobs]) -> ChatLogprobs:
    return ChatLogprobs([_chat_logprob(spelling, entry) for entry in entries])


def _chat_logprob(spelling: TokenSpelling, entry: TokenLogprobs) -> ChatLogprob:
    top = [
        TopLogprob(token_text(spelling, token_id), _finite(logprob), list(data))
        for token_id, logprob in zip(entry.top_token_ids, entry.top_logprobs, strict=True)
        for data in (spelling.token_bytes(token_id),)
    ]
    data = spelling.token_bytes(entry.token_id)
    return ChatLogprob(
        token_text(spelling, entry.token_id), _finite(entry.logprob), list(data), top
    )


def prompt_logprobs(
    spelling: TokenSpelling, entries: Sequence[TokenLogprobs | None]
) -> PromptLogprobs:
    """Entry 0 is null: nothing precedes the first token."""
    return [None if entry is None else _prompt_entry(spelling, entry) for entry in entries]


def _prompt_entry(spelling: TokenSpelling, entry: TokenLogprobs) -> dict[int, PromptLogprob]:
    ranked = {
        token_id: (logprob, rank)
        for rank, (token_id, logprob) in enumerate(
            zip(entry.top_token_ids, entry.top_logprobs, strict=True), start=1
        )
    }
    ranked.setdefault(entry.token_id, (entry.logprob, entry.rank))
    return {
        token_id: PromptLogprob(_finite(logprob), rank, token_text(spelling, token_id))
        for token_id, (logprob, rank) in ranked.items()
    }


class CompletionLogprobsWriter:
    """The completions shape of one choice, piece by piece: it knows where the next token begins.

    Offsets count the characters of the tokens before; a token inside a character begins with it.
    """

    def __init__(self, spelling: TokenSpelling) -> None:
        self._spelling = spelling
        self._text_bytes = spelling.token_bytes
        if isinstance(spelling, TokenIdSpelling):
            self._text_bytes = spelling.text_bytes
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._offset = 0

    def write(
        self, token_ids: Sequence[int], entries: Sequence[TokenLogprobs | None]
    ) -> CompletionLogprobs:
        """`entries` has one entry per token; None where there is no probability."""
        offsets = []
        for token_id in token_ids:
            offsets.append(self._offset)
            self._offset += len(self._decoder.decode(self._text_bytes(token_id)))
        return CompletionLogprobs(
            text_offset=offsets,
            token_logprobs=[None if entry is None else _finite(entry.logprob) for entry in entries],
            tokens=[token_text(self._spelling, token_id) for token_id in token_ids],
            top_logprobs=[None if entry is None else self._top(entry) for entry in entries],
        )

    def _top(self, entry: TokenLogprobs) -> dict[str, float]:
        """By text, so that of two tokens that look alike the more probable one is kept."""
        top: dict[str, float] = {}
        for token_id, logprob in zip(entry.top_token_ids, entry.top_logprobs, strict=True):
            top.setdefault(token_text(self._spelling, token_id), _finite(logprob))
        top.setdefault(token_text(self._spelling, entry.token_id), _finite(entry.logprob))
        return top
