"""The wishes for choosing tokens that go beyond temperature, top_k, top_p, min_p and penalties.

Part of `SamplingParams`; here so that each of the two can be read at once. Knows no vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from octavo.core.ranges import Range, check_ids, check_texts
from octavo.errors import InvalidRequest, UnsupportedParameter

MAX_ALLOWED_TOKEN_IDS = 65536
MAX_BAD_WORDS = 1024
MAX_BAD_WORD_CHARS = 256
MAX_DRY_BREAKERS = 16
MAX_DRY_BREAKER_CHARS = 40
DRY_BREAKERS = ("\n", ":", '"', "*")

FILTER_RANGES = (
    Range("top_n_sigma", -1.0, 100.0),
    Range("typical_p", 0.0, 1.0, low_open=True),
    Range("xtc_probability", 0.0, 1.0),
    Range("xtc_threshold", 0.0, 1.0),
    Range("dynatemp_range", 0.0, 100.0),
    Range("dynatemp_exponent", 0.0, 100.0, low_open=True),
    Range("mirostat", 0, 2),
    Range("mirostat_tau", 0.0, 100.0),
    Range("mirostat_eta", 0.0, 10.0),
    Range("dry_multiplier", 0.0, 100.0),
    Range("dry_base", 1.0, 100.0),
    Range("dry_allowed_length", 1, 2**31 - 1),
    Range("dry_penalty_last_n", -1, 2**31 - 1),
)


class TokenFilters(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Names, defaults and meaning are those of llama.cpp's server; of `allowed_token_ids` and
    `bad_words`, vLLM's. `docs/sampling.md` says in which order they act.

    `top_n_sigma` not above 0, `typical_p` 1, `xtc_probability` 0, `dynatemp_range` 0, `mirostat` 0
    and `dry_multiplier` 0 switch off. `mirostat` 2 is its second version; the first is refused.
    `dry_penalty_last_n` -1 looks at all tokens, 0 at none. `dry_sequence_breakers` None are
    llama.cpp's own.
    """

    top_n_sigma: float = -1.0
    typical_p: float = 1.0
    xtc_probability: float = 0.0
    xtc_threshold: float = 0.1
    dynatemp_range: float = 0.0
    dynatemp_exponent: float = 1.0
    mirostat: int = 0
    mirostat_tau: float = 5.0
    mirostat_eta: float = 0.1
    dry_multiplier: float = 0.0
    dry_base: float = 1.75
    dry_allowed_length: int = 2
    dry_penalty_last_n: int = -1
    dry_sequence_breakers: list[str] | None = None
    allowed_token_ids: list[int] | None = None
    bad_words: list[str] | None = None

    def check_filters(self) -> None:
        """What `FILTER_RANGES` cannot say. Raises `InvalidRequest` naming the first bad field."""
        if self.mirostat == 1:
            raise UnsupportedParameter(
                "mirostat is 1; 0 and 2 are supported",
                param="mirostat",
            )
        self._check_lists()

    def _check_lists(self) -> None:
        check_texts(
            "dry_sequence_breakers", self.dry_breakers, MAX_DRY_BREAKERS, MAX_DRY_BREAKER_CHARS
        )
        check_texts("bad_words", self.bad_words or (), MAX_BAD_WORDS, MAX_BAD_WORD_CHARS)
        for word in self.bad_words or ():
            if word.isspace():
                raise InvalidRequest("bad_words has a word of spaces alone", param="bad_words")
        check_ids("allowed_token_ids", self.allowed_token_ids, MAX_ALLOWED_TOKEN_IDS)
        if self.allowed_token_ids is not None and not self.allowed_token_ids:
            raise InvalidRequest(
                "allowed_token_ids is empty; at least one id is needed", param="allowed_token_ids"
            )

    @property
    def dry_breakers(self) -> Sequence[str]:
        given = self.dry_sequence_breakers
        return DRY_BREAKERS if given is None else given

    @property
    def has_dry(self) -> bool:
        return self.dry_multiplier > 0 and self.dry_penalty_last_n != 0

    @property
    def has_draw_filters(self) -> bool:
        """Whether drawing needs more than temperature, top_k, top_p and min_p."""
        return (
            self.top_n_sigma > 0
            or self.typical_p < 1
            or self.xtc_probability > 0
            or self.dynatemp_range > 0
            or self.mirostat != 0
        )
