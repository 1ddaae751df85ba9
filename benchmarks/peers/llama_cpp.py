"""Drives llama.cpp's own benchmark programs, `llama-bench` and `llama-batched-bench`."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from octavo.errors import ConfigError

BATCHED_BENCH = "llama-batched-bench"


@dataclass(frozen=True, slots=True)
class LlamaCpp:
    """`bench` is the program llama-bench; the other one lies beside it."""

    bench: Path
    model: Path
    threads: int

    def single(self, prompt_tokens: int, answer_tokens: int) -> tuple[float, float]:
        """Tokens per second of one sequence: prefill, and decode from an empty context."""
        output = self._run(
            self.bench, "-r", 1, "-p", prompt_tokens, "-n", answer_tokens, "-o", "json"
        )
        tests = json.loads(output)
        prefill = next(float(test["avg_ts"]) for test in tests if test["n_prompt"])
        decode = next(float(test["avg_ts"]) for test in tests if test["n_gen"])
        return prefill, decode

    def batched(self, batches: Sequence[int], context: int, steps: int) -> dict[int, float]:
        """Tokens per second of all sequences together, decoding `steps` each, by batch size."""
        output = self._run(
            self.bench.with_name(BATCHED_BENCH),
            *("-c", max(batches) * (context + steps), "-npp", context, "-ntg", steps),
            *("-npl", ",".join(map(str, batches)), "--output-format", "jsonl"),
        )
        lines = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
        return {int(line["pl"]): float(line["speed_tg"]) for line in lines}

    def _run(self, program: Path, *arguments: object) -> str:
        command = [str(program), "-m", str(self.model), "-t", str(self.threads)]
        done = subprocess.run(
            [*command, *map(str, arguments)], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise ConfigError(f"{program.name} failed: {done.stderr.strip()[-500:]}")
        return done.stdout
