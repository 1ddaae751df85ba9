"""What pages are held for: shared by answers of one prompt, wasted at ends, and what a cache costs.

    PYTHONPATH=src:. python -m benchmarks.scheduling.page_use [MODEL] [--json FILE]

One prompt of 500 tokens with 64 more, answered eight times in three ways: the most pages held. A
mix of lognormal lengths: the slots of held pages that no token is meant for, as a mean over the
steps. A prompt of 512 tokens of which nothing is cached: what its names and their index take, as
the difference of all that is done for its pages with the cache and without.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean, median

import msgspec

from octavo.bench.lengths import LogNormal
from octavo.config.engine import EngineConfig
from octavo.core.outputs import EngineStats
from octavo.core.request import EngineRequest
from octavo.core.sampling_params import SamplingParams
from octavo.core.sequence import PAGE_TOKENS
from octavo.core.sequence import Sequence as TokenSequence
from octavo.engine.engine import Engine
from octavo.engine.factory import load_engine
from octavo.hub.find import find_model
from octavo.kv.kv_manager import KvManager

WIDTH = 8
PROMPT_TOKENS, ANSWER_TOKENS = 500, 64
MIX_REQUESTS = 64
MIX_LENGTHS = LogNormal(median=220, sigma=0.7, most=1000)
"""Of prompts and of answers alike: 290 on average."""
COLD_TOKENS = 512
NUM_TRIALS = 200
FIRST_ID = 1000
"""Ids from here on are words in every vocabulary; below them may be control tokens."""


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model", nargs="?", default="smollm2")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    engine = load_engine(EngineConfig(model=str(find_model(options.model)), max_num_seqs=32))
    try:
        figures = {f"pages, {way}": most_pages(engine, way) for way in WAYS}
        figures["waste of a mix"] = mean_waste(engine)
    finally:
        engine.close()
    figures["seconds of names and index"] = cold_prompt_seconds()
    for name, value in figures.items():
        print(f"{name:32} {value:10.4g}")
    if options.json:
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(figures)))


def request(number: int, prompt: list[int], params: SamplingParams) -> EngineRequest:
    return EngineRequest(
        request_id=str(number),
        prompt_token_ids=prompt,
        sampling_params=params,
        arrival_time=time.monotonic(),
    )


def draw_prompt(source: random.Random, num_tokens: int) -> list[int]:
    return [source.randrange(FIRST_ID, 2 * FIRST_ID) for _ in range(num_tokens)]


def separate() -> list[EngineRequest]:
    source = random.Random(1)
    params = SamplingParams(temperature=1.0, max_tokens=ANSWER_TOKENS, ignore_eos=True)
    prompts = [draw_prompt(source, PROMPT_TOKENS) for _ in range(WIDTH)]
    return [request(number, prompt, params) for number, prompt in enumerate(prompts)]


def sampled() -> list[EngineRequest]:
    params = SamplingParams(n=WIDTH, temperature=1.0, max_tokens=ANSWER_TOKENS, ignore_eos=True)
    return [request(0, draw_prompt(random.Random(2), PROMPT_TOKENS), params)]


def beams() -> list[EngineRequest]:
    params = SamplingParams(
        use_beam_search=True,
        beam_width=WIDTH,
        temperature=0.0,
        max_tokens=ANSWER_TOKENS,
        ignore_eos=True,
    )
    return [request(0, draw_prompt(random.Random(3), PROMPT_TOKENS), params)]


WAYS = {"separate": separate, f"n={WIDTH}": sampled, f"{WIDTH} beams": beams}


def states(engine: Engine, requests: list[EngineRequest]) -> Iterator[EngineStats]:
    """After each step. Nothing that earlier requests left is shared."""
    engine.reset_prefix_cache()
    for one in requests:
        engine.submit(one)
    while engine.has_work:
        engine.step()
        yield engine.stats()


def most_pages(engine: Engine, way: str) -> float:
    return max(stats.num_used_pages for stats in states(engine, WAYS[way]()))


def mean_waste(engine: Engine) -> float:
    """A part of the slots that are held."""
    source = random.Random(4)
    requests = []
    for number in range(MIX_REQUESTS):
        answer = SamplingParams(max_tokens=MIX_LENGTHS.draw(source), ignore_eos=True)
        requests.append(request(number, draw_prompt(source, MIX_LENGTHS.draw(source)), answer))
    held = (stats for stats in states(engine, requests) if stats.num_used_pages)
    return fmean(one.num_wasted_slots / (one.num_used_pages * PAGE_TOKENS) for one in held)


def cold_prompt_seconds() -> float:
    with_cache, without = (_page_seconds(is_cached) for is_cached in (True, False))
    return with_cache - without


def _page_seconds(enable_prefix_caching: bool) -> float:
    """Of all that is done for the pages of one prompt, from its arrival until it is read."""
    source, times = random.Random(5), []
    kv = KvManager(4096, enable_prefix_caching=enable_prefix_caching)
    for number in range(NUM_TRIALS):
        prompt = draw_prompt(source, COLD_TOKENS)
        asked = request(number, prompt, SamplingParams())
        sequence = TokenSequence(asked, 0, list(prompt), len(prompt), seed=0)
        start = time.perf_counter()
        kv.is_prefix_coming(sequence)
        kv.allocate(sequence, num_reserved_pages=0, use_prefix=True)
        sequence.num_computed_tokens = COLD_TOKENS
        kv.commit(sequence)
        times.append(time.perf_counter() - start)
        kv.free(sequence)
    return median(times)


if __name__ == "__main__":
    main()
