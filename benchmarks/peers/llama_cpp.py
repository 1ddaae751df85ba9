"""Prefill and decode of one stream beside llama.cpp's llama-bench: same file, same run, interleaved.

    python benchmarks/peers/llama_cpp.py MODEL.gguf --llama-bench PATH [--threads 2] [--rounds 5]

Prefill: 512 tokens in one go. Decode: 128 tokens from an empty context. octavo is measured through
`LLM.generate`, so scheduling, sampling and detokenising are in its figures; llama-bench leaves
sampling out of its own. Prints tokens/s, the median of the rounds, and the ratio.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import time
from pathlib import Path

from octavo import LLM, SamplingParams

NUM_PREFILL_TOKENS = 512
NUM_DECODE_TOKENS = 128


def measure_octavo(llm: LLM, salt: int) -> tuple[float, float]:
    """(prefill, decode) in tokens/s. `salt` makes the prompt new, so that no page is reused."""
    vocab = 4000
    prompt = [10 + (salt * 7919 + i * 31) % vocab for i in range(NUM_PREFILL_TOKENS)]
    start = time.perf_counter()
    llm.generate(
        {"prompt_token_ids": prompt},
        SamplingParams(max_tokens=1, temperature=0.0, ignore_eos=True),
        use_tqdm=False,
    )
    prefill_seconds = time.perf_counter() - start
    start = time.perf_counter()
    llm.generate(
        {"prompt_token_ids": [10 + salt % vocab]},
        SamplingParams(max_tokens=NUM_DECODE_TOKENS, temperature=0.0, ignore_eos=True),
        use_tqdm=False,
    )
    decode_seconds = time.perf_counter() - start
    return NUM_PREFILL_TOKENS / prefill_seconds, NUM_DECODE_TOKENS / decode_seconds


def measure_llama(program: str, model: str, threads: int) -> tuple[float, float]:
    command = [program, "-m", model, "-t", str(threads), "-p", str(NUM_PREFILL_TOKENS)]
    command += ["-n", str(NUM_DECODE_TOKENS), "-r", "1", "-o", "json"]
    result = subprocess.run(command, check=True, capture_output=True, text=True)
    rates = {(r["n_prompt"] > 0): r["avg_ts"] for r in json.loads(result.stdout)}
    return rates[True], rates[False]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--llama-bench", required=True)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()

    llm = LLM(
        args.model,
        threads=args.threads,
        max_num_batched_tokens=NUM_PREFILL_TOKENS,
        enable_prefix_caching=False,
    )
    measure_octavo(llm, 0)
    ours, theirs = [], []
    for salt in range(1, args.rounds + 1):
        ours.append(measure_octavo(llm, salt))
        theirs.append(measure_llama(args.llama_bench, args.model, args.threads))
    print(f"{Path(args.model).name}, {args.threads} threads, median of {args.rounds}")
    for column, name in enumerate(("prefill 512", "decode 128")):
        a = statistics.median(row[column] for row in ours)
        b = statistics.median(row[column] for row in theirs)
        print(f"{name:12}  octavo {a:8.1f}  llama.cpp {b:8.1f} tokens/s  ratio {a / b:5.2f}")


if __name__ == "__main__":
    main()
