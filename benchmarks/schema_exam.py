"""The schema exam on a real model: how many answers are valid, cut off by their length, or wrong.

`PYTHONPATH=src:. python benchmarks/schema_exam.py MODEL` runs every schema of `tests/structured`
with several seeds at temperature 1, all in one batch; with `--part K/N` only every Nth one of them.
Ends with 1 if an answer that ended by itself does not obey its schema, or if a schema is kept that
should be refused. (Some of the random schemas contradict themselves, and are refused for that.)
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from octavo.core.sampling_params import SamplingParams
from octavo.core.structured_outputs import StructuredOutputs
from octavo.entrypoints.llm import LLM
from octavo.errors import InvalidRequest
from octavo.structured.compiler import GrammarCompiler
from octavo.structured.task import GrammarTask
from tests.structured.exam_schemas import ExamSchema, all_schemas, refused_schemas
from tests.structured.json_checks import violations


@dataclass
class Results:
    """Numbers of answers by verdict, and what is worth showing."""

    counts: Counter[str] = field(default_factory=Counter)
    refused: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    num_tokens: int = 0
    seconds: float = 0.0


def examine(
    llm: LLM,
    schemas: Sequence[ExamSchema],
    to_refuse: Sequence[ExamSchema],
    num_seeds: int,
    max_tokens: int,
) -> Results:
    """Answers of each schema that is not refused, from `num_seeds` seeds; and which of the schemas
    `to_refuse` are kept all the same."""
    results, compiler = Results(), GrammarCompiler()
    accepted = [one for one in schemas if _is_accepted(compiler, one, results)]
    results.kept = [one.name for one in to_refuse if _is_accepted(compiler, one, Results())]
    compiler.close()
    params = [_params(one, num_seeds, max_tokens) for one in accepted]
    start = time.perf_counter()
    outputs = llm.chat([_conversation(one) for one in accepted], params, use_tqdm=False)
    results.seconds = time.perf_counter() - start
    for one, request in zip(accepted, outputs, strict=True):
        for answer in request.outputs:
            results.num_tokens += len(answer.token_ids)
            verdict = _verdict(one, answer.text, answer.finish_reason)
            results.counts[verdict] += 1
            if verdict == "wrong":
                results.wrong.append(f"{one.name}: {answer.text}")
    return results


def _is_accepted(compiler: GrammarCompiler, one: ExamSchema, results: Results) -> bool:
    try:
        compiler.compile(GrammarTask(_outputs(one)))
    except InvalidRequest as error:
        results.refused.append(f"{one.name}: {error.message}")
        return False
    return True


def _outputs(one: ExamSchema) -> StructuredOutputs:
    return StructuredOutputs(json=json.dumps(one.schema))


def _params(one: ExamSchema, num_seeds: int, max_tokens: int) -> SamplingParams:
    return SamplingParams(
        n=num_seeds,
        temperature=1.0,
        seed=0,
        max_tokens=max_tokens,
        structured_outputs=_outputs(one),
    )


def _conversation(one: ExamSchema) -> list[dict[str, str]]:
    schema = json.dumps(one.schema, ensure_ascii=False)
    return [{"role": "user", "content": f"Write one example of this JSON schema: {schema:.600}"}]


def _verdict(one: ExamSchema, text: str, reason: str | None) -> str:
    if reason == "length":
        return "length"
    return "wrong" if reason != "stop" or violations(one.schema, text) else "valid"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--max-tokens", type=int, default=200)
    parser.add_argument("--max-num-seqs", type=int, default=64)
    parser.add_argument("--part", type=_part, default=(1, 1), metavar="K/N")
    options = parser.parse_args()
    first, step = options.part
    schemas, to_refuse = all_schemas()[first - 1 :: step], refused_schemas()[first - 1 :: step]
    with LLM(options.model, max_model_len=1024, max_num_seqs=options.max_num_seqs) as llm:
        results = examine(llm, schemas, to_refuse, options.seeds, options.max_tokens)
    for line in (*results.refused, *results.kept, *results.wrong):
        print(line)
    print(f"schemas: {len(schemas)}, of them refused: {len(results.refused)}")
    print(f"schemas to refuse: {len(to_refuse)}, of them kept: {len(results.kept)}")
    print(f"answers: {dict(results.counts)}; {results.num_tokens} tokens, {results.seconds:.0f} s")
    return 1 if results.wrong or results.kept else 0


def _part(text: str) -> tuple[int, int]:
    number, _, parts = text.partition("/")
    if not 1 <= int(number) <= int(parts):
        raise ValueError(text)
    return int(number), int(parts)


if __name__ == "__main__":
    sys.exit(main())
