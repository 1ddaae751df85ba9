"""One logits processor that keeps its contract, and some that break it, each in its way."""

from __future__ import annotations

import time

import numpy as np

from octavo.sampling.processors.contract import Arguments, Logits, ProcessorFacts, TokenIds


class Bans:
    """Bans the tokens `ids`, and in the first `after` tokens of the answer does nothing."""

    contract_version = 1

    def __init__(self, facts: ProcessorFacts) -> None:
        self.facts = facts

    def check(self, arguments: Arguments) -> None:
        if not arguments.keys() <= {"ids", "after"}:
            raise ValueError(f"ids and after are allowed, not {sorted(arguments)}")
        ids = arguments.get("ids", [])
        if not isinstance(ids, list) or not all(type(one) is int for one in ids):
            raise ValueError("ids must be a list of integers")

    def apply(
        self, logits: Logits, token_ids: TokenIds, num_prompt_tokens: int, arguments: Arguments
    ) -> None:
        if len(token_ids) - num_prompt_tokens >= int(str(arguments.get("after", 0))):
            logits[arguments.get("ids", [])] = -np.inf  # type: ignore[call-overload]


class Old(Bans):
    contract_version = 0


class Lenient(Bans):
    def check(self, arguments: Arguments) -> None:
        pass


class Confused(Bans):
    def check(self, arguments: Arguments) -> None:
        raise KeyError(f"secret {len(arguments)}")


class Raising(Bans):
    def apply(self, *_: object) -> None:
        raise RuntimeError("secret detail of the processor")


class NotANumber(Bans):
    def apply(self, logits: Logits, *_: object) -> None:
        logits[3] = np.nan


class Infinite(Bans):
    def apply(self, logits: Logits, *_: object) -> None:
        logits[3] = np.inf


class BansAll(Bans):
    def apply(self, logits: Logits, *_: object) -> None:
        logits[:] = -np.inf


class Allows(Bans):
    """Lets tokens return that the model excludes."""

    def apply(self, logits: Logits, *_: object) -> None:
        logits[:] = 0.0


class Counting(Bans):
    """Depends on how often it was called."""

    num_calls = 0

    def apply(self, logits: Logits, *_: object) -> None:
        self.num_calls += 1
        logits[self.num_calls % len(logits)] -= 1.0


class Writing(Bans):
    def apply(self, logits: Logits, token_ids: TokenIds, *_: object) -> None:  # noqa: ARG002
        token_ids[0] = 1


class Slow(Bans):
    def apply(self, logits: Logits, *_: object) -> None:
        end = time.thread_time() + 2e-6 * len(logits)
        while time.thread_time() < end:
            pass
