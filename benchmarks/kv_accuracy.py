"""What each element type of keys and values costs in accuracy, beside float32, on one text.

    PYTHONPATH=src:. python -m benchmarks.kv_accuracy MODEL ... [--dtype float32] [--tokens N]

The text is the repository's ARCHITECTURE.md unless --text names another. Every type sees the same
tokens in the same chunks. Printed: relative root mean square of the differences of all logits;
positions whose most probable token is another; perplexity of the text.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from octavo.core.model_config import KV_ELEMENT_BYTES, ModelConfig
from octavo.core.request import EngineRequest
from octavo.core.sampling_params import SamplingParams
from octavo.core.schedule import ScheduledSequence, ScheduledStep
from octavo.core.sequence import PAGE_TOKENS, Sequence
from octavo.hub.find import find_model
from octavo.kernels._native import KvCache, ThreadPool, isa_levels
from octavo.models.model import Model
from octavo.models.registry import model_from_gguf
from octavo.runner.executable import ProgramExecutable
from octavo.runner.load import compile_for_file
from octavo.runner.step import Step, StepLimits
from octavo.tokenization.tokenizer import Tokenizer
from octavo.weights.gguf import GGUFFile
from octavo.weights.loader import load_weights

F32 = npt.NDArray[np.float32]
TEXT = Path(__file__).parent.parent / "ARCHITECTURE.md"
CHUNK_TOKENS = 128
LEVEL = isa_levels()[0]


@dataclass
class Tally:
    """Sums over all positions so far."""

    num_tokens: int = 0
    squared_error: float = 0.0
    squared: float = 0.0
    num_other: int = 0
    surprise: float = 0.0

    def add(self, got: F32, reference: F32, actual: npt.NDArray[np.int64]) -> None:
        """Logits [positions, vocabulary], and the tokens that came next; the last may be absent."""
        self.num_tokens += len(actual)
        self.squared_error += float(np.sum((got - reference) ** 2, dtype=np.float64))
        self.squared += float(np.sum(reference**2, dtype=np.float64))
        self.num_other += int(np.sum(got.argmax(axis=1) != reference.argmax(axis=1)))
        rows = got[: len(actual)]
        top = rows.max(axis=1, keepdims=True)
        total = np.log(np.sum(np.exp(rows - top), axis=1, dtype=np.float64))
        self.surprise += float(np.sum(total + top[:, 0] - rows[np.arange(len(actual)), actual]))

    def line(self, name: str, model: ModelConfig) -> str:
        error = (self.squared_error / self.squared) ** 0.5
        return (
            f"{name:9} {model.kv_bytes_per_token(name):12} {error:13.2e}"
            f" {self.num_other / (self.num_tokens + 1):11.2%}"
            f" {np.exp(self.surprise / self.num_tokens):10.4f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="+", metavar="MODEL")
    parser.add_argument("--text", type=Path, default=TEXT)
    parser.add_argument("--tokens", type=int, default=1024)
    parser.add_argument("--dtype", choices=("auto", "float32"), default="auto", help="of weights")
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    text = arguments.text.read_text()
    for name in arguments.models:
        path = find_model(name)
        with GGUFFile.open(path) as file:
            tokenizer = Tokenizer.from_gguf(file.metadata, source=path)
            ids = tokenizer.encode(text, add_special_tokens=True)[: arguments.tokens]
            model = model_from_gguf(file)
            executables = make_executables(file, model, arguments, len(ids))
        print(
            f"\n{path.name}, weights {arguments.dtype}, {len(ids)} tokens of {arguments.text.name}"
        )
        print("kv type   bytes/token  relative RMS  other top-1  perplexity")
        for kv_dtype, tally in tallies(executables, ids).items():
            print(tally.line(kv_dtype, model.config))


Executables = dict[str, tuple[Step, ProgramExecutable]]
"""By type of keys and values."""


def make_executables(
    file: GGUFFile, model: Model, arguments: argparse.Namespace, num_tokens: int
) -> Executables:
    program = compile_for_file(file, model, arguments.dtype)
    pool = ThreadPool(arguments.threads)
    weights = load_weights(file, model.weights(), arguments.dtype, pool)
    layers = [(layer.num_kv_heads, layer.head_dim) for layer in model.config.layers]
    limits = StepLimits(
        max_tokens=CHUNK_TOKENS,
        max_sequences=1,
        max_logit_rows=CHUNK_TOKENS,
        max_context_tokens=num_tokens,
    )
    made: Executables = {}
    for kv_dtype in KV_ELEMENT_BYTES:
        step = Step(limits)
        pages = KvCache(limits.max_pages, layers, kv_dtype)
        made[kv_dtype] = step, ProgramExecutable(program, weights, pages, pool, LEVEL, step)
    return made


def tallies(executables: Executables, ids: list[int]) -> dict[str, Tally]:
    results = {kv_dtype: Tally() for kv_dtype in executables}
    sequence = sequence_of(ids)
    for start in range(0, len(ids), CHUNK_TOKENS):
        stop = min(start + CHUNK_TOKENS, len(ids))
        actual = np.asarray(ids[start + 1 : stop + 1])
        reference: F32 | None = None
        for kv_dtype, (step, executable) in executables.items():
            step.fill(step_of(sequence, start, stop))
            logits = executable.run()
            reference = logits if reference is None else reference
            results[kv_dtype].add(logits, reference, actual)
    return results


def sequence_of(ids: list[int]) -> Sequence:
    request = EngineRequest(
        request_id="text", prompt_token_ids=ids, sampling_params=SamplingParams(), arrival_time=0.0
    )
    sequence = Sequence(request=request, index=0, token_ids=ids, num_prompt_tokens=len(ids), seed=0)
    sequence.page_table = list(range(-(-len(ids) // PAGE_TOKENS)))
    return sequence


def step_of(sequence: Sequence, start: int, stop: int) -> ScheduledStep:
    one = ScheduledSequence(
        sequence=sequence,
        start=start,
        num_tokens=stop - start,
        samples=False,
        wants_prompt_logprobs=True,
    )
    return ScheduledStep([one], stop - start)


if __name__ == "__main__":
    main()
