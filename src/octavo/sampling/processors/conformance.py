"""Whether a logits processor keeps its contract: checks that an outside author can run.

    python -m octavo.sampling.processors.conformance NAME | module:Class [KWARGS AS JSON]

Or in one's own tests:

    @pytest.mark.parametrize("check", CHECKS)
    def test_conforms(check): check(MyProcessor, {"threshold": 2})

A check takes a factory and arguments that the processor accepts, and raises `NonConforming` with
what was found. Knows no processor.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from types import MappingProxyType

import numpy as np

from octavo.config.plugin_report import NonConforming, demand, report
from octavo.core.processor_call import ProcessorCall
from octavo.errors import ConfigError
from octavo.sampling.processors.contract import (
    CONTRACT_VERSION,
    Arguments,
    Logits,
    LogitsProcessor,
    ProcessorFactory,
    ProcessorFacts,
    TokenIds,
)
from octavo.sampling.processors.guarded import GuardedProcessors
from octavo.sampling.processors.registry import find_factory

Check = Callable[[ProcessorFactory, Arguments], None]

FACTS = ProcessorFacts(vocab_size=1000, stop_token_ids=frozenset({2, 7}))
NUM_ROWS = 20
MAX_SECONDS = 0.05
"""Of processor time for one row of 150,000 logits and 8,000 tokens; a step of a small model takes
less."""
LARGE = ProcessorFacts(vocab_size=150_000, stop_token_ids=frozenset({2, 7}))


def check_version(factory: ProcessorFactory, arguments: Arguments) -> None:  # noqa: ARG001
    """It is of this version of the contract."""
    version = factory(FACTS).contract_version
    demand(version == CONTRACT_VERSION, f"contract_version is {version}, not {CONTRACT_VERSION}")


def check_arguments_are_judged(factory: ProcessorFactory, arguments: Arguments) -> None:
    """It accepts the given arguments, and refuses a name that it cannot know by a ValueError."""
    processor = factory(FACTS)
    processor.check(arguments)
    try:
        processor.check(MappingProxyType({**arguments, "no such argument": 1}))
    except ValueError:
        return
    raise NonConforming("an argument that it cannot know is accepted and ignored")


def check_rows_stay_possible(factory: ProcessorFactory, arguments: Arguments) -> None:
    """What it makes of a row can be drawn from: no NaN, no +inf, a token is left, and those that
    are excluded stay so."""
    guarded = GuardedProcessors({"processor": factory(FACTS)})
    call = ProcessorCall("processor", dict(arguments))
    for row, tokens, num_prompt in _rows(FACTS):
        guarded.changed(row, tokens, num_prompt, [call])


def check_rows_depend_on_nothing_else(factory: ProcessorFactory, arguments: Arguments) -> None:
    """The same row gives the same, from a new object and from one that has seen others, twice."""
    used = factory(FACTS)
    rows = list(_rows(FACTS))
    first = [_applied(used, *one, arguments) for one in rows]
    for index in reversed(range(len(rows))):
        again = _applied(used, *rows[index], arguments)
        alone = _applied(factory(FACTS), *rows[index], arguments)
        demand(np.array_equal(again, first[index]), f"row {index} differs when asked again")
        demand(np.array_equal(alone, first[index]), f"row {index} differs after other rows")


def check_tokens_are_only_read(factory: ProcessorFactory, arguments: Arguments) -> None:
    """It leaves tokens and arguments as they are."""
    processor = factory(FACTS)
    before = json.dumps(dict(arguments))
    for row, tokens, num_prompt in _rows(FACTS):
        copy = tokens.copy()
        processor.apply(row.copy(), tokens, num_prompt, arguments)
        demand(np.array_equal(tokens, copy), "it changes the tokens")
    demand(json.dumps(dict(arguments)) == before, "it changes its arguments")


def check_cost(factory: ProcessorFactory, arguments: Arguments) -> None:
    """A large row costs at most `MAX_SECONDS` of processor time, the best of five."""
    processor = factory(LARGE)
    row, tokens, num_prompt = next(_rows(LARGE, num_tokens=8000))
    seconds = []
    for _ in range(5):
        copy = row.copy()
        start = time.thread_time()
        processor.apply(copy, tokens, num_prompt, arguments)
        seconds.append(time.thread_time() - start)
    demand(min(seconds) <= MAX_SECONDS, f"a large row costs {min(seconds):.3f} seconds")


CHECKS: tuple[Check, ...] = (
    check_version,
    check_arguments_are_judged,
    check_rows_stay_possible,
    check_rows_depend_on_nothing_else,
    check_tokens_are_only_read,
    check_cost,
)


def _rows(
    facts: ProcessorFacts, num_tokens: int | None = None
) -> Iterator[tuple[Logits, TokenIds, int]]:
    """Rows as models make them: some tokens excluded, prompts and answers of all lengths."""
    random = np.random.default_rng(0)
    for _ in range(NUM_ROWS):
        row = (random.standard_normal(facts.vocab_size) * 5).astype(np.float32)
        row[random.integers(0, facts.vocab_size, facts.vocab_size // 20)] = -np.inf
        count = int(random.integers(1, 200)) if num_tokens is None else num_tokens
        tokens = random.integers(0, facts.vocab_size, count).astype(np.int32)
        yield row, tokens, int(random.integers(1, count + 1))


def _applied(
    processor: LogitsProcessor,
    row: Logits,
    tokens: TokenIds,
    num_prompt: int,
    arguments: Arguments,
) -> Logits:
    copy = row.copy()
    processor.apply(copy, tokens, num_prompt, arguments)
    return copy


def main(given: list[str]) -> int:
    """One line per check; 1 if any fails, 2 if there is no such processor."""
    if len(given) not in (1, 2):
        sys.stderr.write("usage: python -m octavo.sampling.processors.conformance NAME [KWARGS]\n")
        return 2
    try:
        factory = find_factory(given[0])
        arguments: Arguments = MappingProxyType(dict(json.loads(given[1])) if given[1:] else {})
    except (ConfigError, ValueError, TypeError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return report(CHECKS, factory, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
