"""Drives llama.cpp's own programs: `llama-bench`, `llama-batched-bench` and `llama-server`."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.peers.plan import Plan, Rates
from octavo.errors import ConfigError

BATCHED_BENCH, SERVER = "llama-batched-bench", "llama-server"


@dataclass(frozen=True, slots=True)
class LlamaCpp:
    """`bench` is the program llama-bench; the others lie beside it. Loads anew in each round."""

    bench: Path
    model: Path
    threads: int
    name: str = "llama.cpp"

    def measure(self, plan: Plan) -> Rates:
        prefill, decode = self.single(plan.prompt_tokens, plan.answer_tokens)
        rates = {"prefill": prefill, "decode": decode}
        if plan.batch_sizes:
            found = self.batched(plan.batch_sizes, plan.context, plan.steps)
            rates |= {f"decode batch {batch}": rate for batch, rate in found.items()}
        return rates

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

    def close(self) -> None:
        """Nothing runs between measurements."""

    def _run(self, program: Path, *arguments: object) -> str:
        command = [str(program), "-m", str(self.model), "-t", str(self.threads)]
        done = subprocess.run(
            [*command, *map(str, arguments)], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise ConfigError(f"{program.name} failed: {done.stderr.strip()[-500:]}")
        return done.stdout


def llama_server(
    bench: Path, model: Path, threads: int, port: int, *, slots: int, context: int
) -> tuple[list[str], Mapping[str, str]]:
    """Command and environment of a server with room for `slots` requests at once."""
    options = {
        "-m": model,
        "-t": threads,
        "--host": "127.0.0.1",
        "--port": port,
        "-np": slots,
        "-c": slots * context,
    }
    pairs = (part for option in options.items() for part in option)
    # Slots of their own: with --kv-unified each one's attention passes over all.
    return [str(bench.with_name(SERVER)), *map(str, pairs), "--no-kv-unified"], {}
