"""Which token ids can spell a phrase that an answer must not contain, or that ends repetitions.

Knows a tokenizer; owns an index of its tokens' bytes, made when first needed. Knows no request.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from itertools import accumulate

from octavo.tokenization.tokenizer import Tokenizer

MAX_TAIL_TOKENS = 20
"""Of a breaker that one token begins and others end (llama.cpp's limit)."""
CACHED_BREAKERS = 64


class Phrases:
    """May be used by many threads."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._cached_breaker = lru_cache(CACHED_BREAKERS)(self._breaker)

    def words(self, words: Iterable[str]) -> list[list[int]]:
        """vLLM's spellings of each word: without a space before it, and with one where that
        changes the first token and not how many there are."""
        found: list[list[int]] = []
        for word in words:
            bare, spaced = self._encode(word.lstrip()), self._encode(" " + word.lstrip())
            if not bare:
                continue
            found.append(bare)
            if len(spaced) == len(bare) and spaced[0] != bare[0]:
                found.append(spaced)
        return found

    def breakers(self, texts: Sequence[str]) -> list[list[int]]:
        """Token sequences that contain one of `texts` and no less (as llama.cpp finds them), in
        rising order: tokens that hold all of it, and tokens that end with its beginning followed by
        the tokens of the rest."""
        found = {ids for text in texts for ids in self._cached_breaker(text)}
        return [list(ids) for ids in sorted(found)]

    def _encode(self, text: str) -> list[int]:
        return self._tokenizer.encode(text, add_special_tokens=False, parse_special=True)

    def _breaker(self, text: str) -> frozenset[tuple[int, ...]]:
        wanted = text.encode()
        found: set[tuple[int, ...]] = {(token_id,) for token_id in self._tokens_with(wanted)}
        for end in range(1, len(text)):
            tail = tuple(self._encode(text[end:])[:MAX_TAIL_TOKENS])
            beginning = text[:end].encode()
            found.update((token_id, *tail) for token_id in self._tokens_ending(beginning))
        return frozenset(found)

    def _tokens_with(self, wanted: bytes) -> Iterator[int]:
        """Ids of the tokens that hold `wanted`."""
        joined, ends = self._joined
        at = joined.find(wanted)
        while at >= 0:
            token_id = bisect_right(ends, at)
            if at + len(wanted) <= ends[token_id]:
                yield token_id
            at = joined.find(wanted, at + 1)

    def _tokens_ending(self, wanted: bytes) -> list[int]:
        candidates = self._by_last_byte.get(wanted[-1], ())
        token_bytes = self._tokenizer.token_bytes
        return [token_id for token_id in candidates if token_bytes(token_id).endswith(wanted)]

    @cached_property
    def _joined(self) -> tuple[bytes, list[int]]:
        """All tokens' bytes, and where each ends."""
        tokens = [self._tokenizer.token_bytes(i) for i in range(self._tokenizer.vocab_size)]
        return b"".join(tokens), list(accumulate(map(len, tokens)))

    @cached_property
    def _by_last_byte(self) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        joined, ends = self._joined
        begin = 0
        for token_id, end in enumerate(ends):
            if end > begin:
                found.setdefault(joined[end - 1], []).append(token_id)
            begin = end
        return found
