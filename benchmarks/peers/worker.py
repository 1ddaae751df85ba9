"""Talks to a worker, a small program in a contender's own Python, in lines of JSON.

A request is {"do": NAME, ...arguments}, an answer {"result": ...} or {"error": TEXT}; the other
end is `workers/json_lines.py`. Knows no engine.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.peers.plan import Plan, Rates
from benchmarks.peers.process import PeerError, PeerProcess

WORKERS = Path(__file__).parent / "workers"


class Worker:
    """One loaded engine. Runs only while it is asked something."""

    def __init__(
        self,
        name: str,
        python: Path,
        program: str,
        load: Mapping[str, object],
        environment: Mapping[str, str] | None = None,
    ) -> None:
        command = [str(python), str(WORKERS / program)]
        self._process = PeerProcess(name, command, environment, has_pipes=True)
        self.name = name
        try:
            self.load_seconds = self.number("load", **load)
        except BaseException:
            self.close()
            raise

    def measure(self, plan: Plan) -> Rates:
        """Tokens per second, as `Plan` says."""
        seconds = self.number("prefill", num_tokens=plan.prompt_tokens)
        rates = {"prefill": plan.prompt_tokens / seconds}
        seconds = self.number("decode", context=1, batch=1, steps=plan.answer_tokens)
        rates["decode"] = plan.answer_tokens / seconds
        for batch in plan.batch_sizes:
            seconds = self.number("decode", context=plan.context, batch=batch, steps=plan.steps)
            rates[f"decode batch {batch}"] = batch * plan.steps / seconds
        return rates

    def serve(self, prompts: Sequence[str], max_tokens: int, clients: int) -> float:
        """Output tokens per second over all prompts, `clients` of them open at any time."""
        seconds = self.number("serve", prompts=prompts, max_tokens=max_tokens, clients=clients)
        return len(prompts) * max_tokens / seconds

    def close(self) -> None:
        self._process.close()

    def number(self, do: str, **arguments: object) -> float:
        """The answer to a request, in the worker's turn. Raises PeerError with its complaint."""
        with self._process.turn():
            return float(str(self._ask({"do": do, **arguments})))

    def _ask(self, request: Mapping[str, object]) -> object:
        stdin, stdout = self._process.process.stdin, self._process.process.stdout
        assert stdin is not None
        assert stdout is not None
        try:
            stdin.write(json.dumps(request).encode() + b"\n")
            stdin.flush()
            line = stdout.readline()
        except BrokenPipeError:
            line = b""
        if not line:
            raise PeerError(f"{self.name} died at {request['do']!r}: {self._process.log}")
        answer = json.loads(line)
        if "error" in answer:
            raise PeerError(f"{self.name} failed at {request['do']!r}: {answer['error']}")
        return answer["result"]
