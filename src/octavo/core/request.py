"""A request as the engine takes it: token ids and wishes. Already checked; crosses processes."""

from __future__ import annotations

import msgspec

from octavo.core.pooling import Pooling
from octavo.core.sampling_params import SamplingParams


class ThinkingBudget(msgspec.Struct, frozen=True):
    """An answer that begins with `begin_token_id` (or whose prompt ends with it, if that is None)
    is reasoning up to `end_token_id`, which is appended after `max_tokens` tokens of it."""

    max_tokens: int
    end_token_id: int
    begin_token_id: int | None = None


class EngineRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`request_id` is ours and unique, never the client's. `arrival_time` is time.time() seconds.

    `cache_salt` and `adapter` scope the prefix cache: only requests of equal salt and adapter share
    pages. `adapter` is the id of what changes the model's weights for this request; "" for nothing.
    `tenant` is who pays: the holder of an API key; "" where nobody has a name. `tenant_weight` is
    its share relative to other tenants, above 0. `priority`: smaller runs first. What is not
    finished at `deadline`, in time.time() seconds, ends with the error `DEADLINE_EXCEEDED`.
    Sampling with `n` > 1 makes n sequences with indices 0..n-1. `bad_word_ids` and
    `dry_breaker_ids` (in rising order) are how the vocabulary spells those texts of the parameters.
    `grammar` is what became of their `structured_outputs`: the text of one that has been tried.
    With `pooling` the answer is one vector, of the prompt, and `max_tokens` is 0.
    `shown_token_ids` are control tokens that are text even where others are skipped: the marks by
    which calls and reasoning are told from the rest. `thinking` bounds the reasoning.
    """

    request_id: str
    prompt_token_ids: list[int]
    sampling_params: SamplingParams
    arrival_time: float
    cache_salt: str = ""
    adapter: str = ""
    priority: int = 0
    tenant: str = ""
    tenant_weight: float = 1.0
    deadline: float | None = None
    bad_word_ids: list[list[int]] = []
    dry_breaker_ids: list[list[int]] = []
    grammar: str = ""
    pooling: Pooling | None = None
    shown_token_ids: list[int] = []
    thinking: ThinkingBudget | None = None
