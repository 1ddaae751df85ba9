"""The contract of a logits processor: code from outside that changes how a token is chosen.

It sees one row of logits and that row's tokens, and nothing else: neither who else runs, nor when.
Processors of contract version 1 pass `sampling.processors.conformance`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

CONTRACT_VERSION = 1

Logits = npt.NDArray[np.float32]
TokenIds = npt.NDArray[np.int32]
Arguments = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessorFacts:
    """What a processor may know of the model. Rows of logits have `vocab_size` numbers;
    `stop_token_ids` end an answer."""

    vocab_size: int
    stop_token_ids: frozenset[int]


class LogitsProcessor(Protocol):
    """One object serves all requests of a process, in any order, from one thread; the front end has
    another, which checks arguments. What `apply` does depends on its parameters alone: a sequence
    may be preempted, moved and computed again."""

    contract_version: int
    """1: this contract."""

    def check(self, arguments: Arguments) -> None:
        """Raises ValueError if a request may not ask for this; its text is told to the client."""

    def apply(
        self, logits: Logits, token_ids: TokenIds, num_prompt_tokens: int, arguments: Arguments
    ) -> None:
        """Change `logits`, float32 [vocab_size], in place: -inf bans a token. No NaN, no +inf, and
        at least one token stays. What is -inf already stays so.

        `token_ids`, int32 [tokens], are those of the prompt and of the answer so far; read only.
        """


ProcessorFactory = Callable[[ProcessorFacts], LogitsProcessor]
