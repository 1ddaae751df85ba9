"""What octavo's arithmetic costs in accuracy: perplexity of one text, beside float32 everywhere.

    PYTHONPATH=src:. python -m benchmarks.perplexity MODEL [--tokens 20480] [--window 1024]
        [--octavo OPTION=VALUE ...] [--oracle-python PYTHON] [--json FILE]

The text is `data/perplexity.txt`, octavo's own documents and docstrings as they once were, cut into
windows that are read one by one from an empty context. Measured: octavo with weights as the file
has them and with keys and values in int16 (the default), float16 and int8, and with weights,
activations, keys and values in float32 (the reference). `--oracle-python` names a Python with
torch, transformers, gguf and accelerate, which computes the reference once more, by other code.
"""

from __future__ import annotations

import argparse
import hashlib
import math
from pathlib import Path

import yaml

from benchmarks.peers.transformers import transformers_worker
from octavo import LLM, SamplingParams
from octavo.bench.fingerprint import fingerprint
from octavo.bench.report import Report, now, report_to_json
from octavo.config.machine import this_machine
from octavo.entrypoints.cli.bench_output import show
from octavo.hub.find import find_model
from octavo.tokenization.tokenizer import Tokenizer
from octavo.weights.gguf import GGUFFile

TEXT = Path(__file__).parent / "data" / "perplexity.txt"
REFERENCE, ORACLE = "float32 reference", "transformers float32"
KV_TYPES = ("int16", "float16", "int8")
Windows = list[list[int]]


def main() -> None:
    arguments = parse_arguments()
    path = find_model(arguments.model)
    windows = windows_of(path, arguments.tokens, arguments.window)
    extra = dict(text.split("=", 1) for text in arguments.octavo)
    options = {name: yaml.safe_load(value) for name, value in extra.items()}
    cases: dict[str, dict[str, object]] = {
        REFERENCE: {"dtype": "float32", "kv_cache_dtype": "float32"},
        **{f"KV {kind}": {"kv_cache_dtype": kind, **options} for kind in KV_TYPES},
    }
    found = {}
    for name, case in cases.items():
        found[name] = perplexity(surprise(path, windows, arguments.threads, case), windows)
        print(f"{name}: {found[name]:.4f}", flush=True)
    if arguments.oracle_python:
        worker = transformers_worker(arguments.oracle_python, path, arguments.threads, "float32")
        found[ORACLE] = perplexity(worker.number("surprise", windows=windows), windows)
        worker.close()
    report = report_of(path, arguments, found)
    show(report)
    if arguments.json:
        arguments.json.write_bytes(report_to_json(report))


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?", default="smollm2")
    parser.add_argument("--tokens", type=int, default=20480)
    parser.add_argument("--window", type=int, default=1024, metavar="TOKENS")
    parser.add_argument("--octavo", nargs="*", default=[], metavar="OPTION=VALUE")
    parser.add_argument("--threads", type=int, default=this_machine().num_cores)
    parser.add_argument("--oracle-python", type=Path, metavar="PYTHON")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write figures and machine there")
    return parser.parse_args()


def windows_of(path: Path, num_tokens: int, window_tokens: int) -> Windows:
    """The text's first `num_tokens` tokens; each window begins as the model expects a text to."""
    with GGUFFile.open(path) as file:
        tokenizer = Tokenizer.from_gguf(file.metadata, source=path)
    ids = tokenizer.encode(TEXT.read_text(), add_special_tokens=False)[:num_tokens]
    beginning = tokenizer.encode("", add_special_tokens=True)
    size = window_tokens - len(beginning)
    return [beginning + ids[start : start + size] for start in range(0, len(ids), size)]


def surprise(path: Path, windows: Windows, threads: int, options: dict[str, object]) -> float:
    """Sum of -log p over all tokens of all windows but the first of each."""
    most_tokens = max(map(len, windows))
    params = SamplingParams(temperature=0.0, max_tokens=1, prompt_logprobs=0)
    with LLM(
        str(path), threads=threads, max_model_len=most_tokens + 1, max_num_seqs=1, **options
    ) as llm:
        results = llm.generate(windows, params)
    total = 0.0
    for result, ids in zip(results, windows, strict=True):
        assert result.prompt_logprobs is not None
        for token_id, entry in zip(ids, result.prompt_logprobs, strict=True):
            if entry is not None:  # nothing foretells the first token
                total -= entry[token_id].logprob
    return total


def perplexity(total_surprise: float, windows: Windows) -> float:
    return math.exp(total_surprise / sum(len(ids) - 1 for ids in windows))


def report_of(path: Path, arguments: argparse.Namespace, found: dict[str, float]) -> Report:
    """With each perplexity, by how much it exceeds the reference's, in per cent."""
    excess = {
        f"{name}, excess in %": 100 * (value / found[REFERENCE] - 1)
        for name, value in found.items()
        if name != REFERENCE
    }
    return Report(
        kind="perplexity",
        created=now(),
        machine=fingerprint(arguments.threads),
        model=path.name,
        settings={
            "tokens": arguments.tokens,
            "window": arguments.window,
            "octavo": " ".join(arguments.octavo),
            "text_sha256": hashlib.sha256(TEXT.read_bytes()).hexdigest(),
        },
        results={**found, **excess},
    )


if __name__ == "__main__":
    main()
