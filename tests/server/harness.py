"""A whole server around a fake model: real routes, real engine, real scheduler, chosen tokens.

Whatever a test does, the engine must hold no request and no page when it is over.
"""

from __future__ import annotations

import asyncio
import json
import math
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx
from prometheus_client.parser import text_string_to_metric_families
from starlette.applications import Starlette

from octavo.config.engine import EngineConfig
from octavo.config.server import ServerConfig
from octavo.config.tenants import load_tenants
from octavo.core.schedule import ScheduledStep
from octavo.engine.engine import Engine
from octavo.engine.in_process import InProcessEngine
from octavo.engine.input_processor import InputProcessor
from octavo.entrypoints.openai.app import build_app
from octavo.entrypoints.openai.batches.line_call import LineCaller
from octavo.entrypoints.openai.batches.service import BatchService
from octavo.entrypoints.openai.intake.context import ModelInfo, ServerContext
from octavo.metrics.engine_metrics import EngineMetrics
from octavo.parsing.registry import dialects_of
from octavo.structured.compiler import GrammarCompiler
from octavo.tokenization.chat_template import ChatTemplate
from octavo.tokenization.spellings import Spellings
from tests.fakes import BOS, EOS, POOLER, SPECIAL_TEXTS, ByteTokenizer, FakeRunner, make_scheduler
from tests.masked_runner import MaskedRunner

MODEL = "fake"
CONTEXT = 512
MAX_NUM_SEQS = 8
TIMEOUT_SECONDS = 120
"""Only what hangs takes so long, even where a loaded disk takes seconds to confirm each write."""
TEMPLATE = (
    "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}"
)
COMPILER = GrammarCompiler()
"""Of all servers: its process takes longer to start than most tests run."""

Json = Any
Script = Mapping[bytes, Sequence[int]] | Mapping[tuple[int, ...], Sequence[int]]


class ChatByteTokenizer(ByteTokenizer):
    """A byte tokenizer that `encode_chat` can work with."""

    markers = controls = Spellings({text: token_id for token_id, text in SPECIAL_TEXTS.items()})

    def encode_parts(self, parts: Iterable[str | int]) -> list[int]:
        ids: list[int] = []
        for part in parts:
            ids += [part] if isinstance(part, int) else part.encode()
        return ids


class Brake:
    """Holds the engine back before a step. `release` lets some more steps go, `open` all."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._num_permits: float = math.inf

    def close(self) -> None:
        self._set(0)

    def open(self) -> None:
        self._set(math.inf)

    def release(self, num_steps: int = 1) -> None:
        self._set(self._num_permits + num_steps)

    def wait(self, step: ScheduledStep) -> None:  # noqa: ARG002
        with self._changed:
            assert self._changed.wait_for(lambda: self._num_permits > 0, TIMEOUT_SECONDS)
            self._num_permits -= 1

    def _set(self, num_permits: float) -> None:
        with self._changed:
            self._num_permits = num_permits
            self._changed.notify_all()


class EngineClock:
    """The time of day, or `ahead_seconds` later: what waits for a deadline need not wait."""

    ahead_seconds = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead_seconds


@dataclass
class Server:
    """One running server and what tests look at."""

    app: Starlette
    engine: Engine
    client: InProcessEngine
    http: httpx.AsyncClient
    metrics: EngineMetrics
    brake: Brake
    runner: FakeRunner
    clock: EngineClock

    @property
    def context(self) -> ServerContext:
        context: ServerContext = self.app.state.context
        return context

    async def post(self, path: str, body: Json, **headers: str) -> httpx.Response:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return await self.http.post(
            path, content=content, headers={"Content-Type": "application/json", **headers}
        )

    async def complete(self, prompt: Json, **fields: Json) -> httpx.Response:
        return await self.post("/v1/completions", {"prompt": prompt, **fields})

    async def chat(self, content: str, **fields: Json) -> httpx.Response:
        messages = [{"role": "user", "content": content}]
        return await self.post("/v1/chat/completions", {"messages": messages, **fields})

    async def events(self, path: str, body: Json) -> list[Json]:
        """The stream's events, decoded; the end mark as the string '[DONE]'."""
        response = await self.post(path, {**body, "stream": True})
        assert response.status_code == 200, response.text
        assert response.headers["content-type"].startswith("text/event-stream")
        return parse_events(response.text)

    async def check_canary(self) -> None:
        """A plain request is still answered."""
        response = await self.complete("canary", max_tokens=2)
        assert response.status_code == 200, response.text
        assert response.json()["usage"]["completion_tokens"] == 2

    def values(self) -> dict[str, float]:
        """What /metrics says, by name; finished requests by name.reason."""
        values: dict[str, float] = {}
        for family in text_string_to_metric_families(self.metrics.text().decode()):
            for sample in family.samples:
                reason = sample.labels.get("finished_reason")
                values[f"{sample.name}.{reason}" if reason else sample.name] = sample.value
        return values

    def num_finished(self, *reasons: str) -> int:
        """Sequences that ended so, or in any way."""
        values = self.values()
        reasons = reasons or ("stop", "length", "abort", "error", "repetition")
        return int(sum(values[f"vllm:request_success_total.{reason}"] for reason in reasons))

    async def wait_idle(self) -> None:
        """Every sequence had its terminal output; nothing is open and no page is held."""
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while self.num_finished() < self.values()["vllm:request_params_n_sum"]:
            assert time.monotonic() < deadline, "a sequence has no end"
            await asyncio.sleep(0.01)
        stats = self.client.stats()
        assert (stats.num_running, stats.num_waiting, stats.num_used_pages) == (0, 0, 0)
        assert len(self.context.open_requests) == 0


Scenario = Callable[[Server], Awaitable[None]]


@dataclass
class Setup:
    """What a test wants of its server. `scripts` maps a prompt's bytes to the ids that follow."""

    scripts: Script = field(default_factory=dict)
    options: ServerConfig = field(default_factory=ServerConfig)
    num_pages: int = 256
    fail_on: Sequence[int] = ()
    tokenizer: ByteTokenizer = field(default_factory=ChatByteTokenizer)
    headers: Mapping[str, str] = field(default_factory=dict)
    template: str = TEMPLATE
    takes_priority: bool = False
    compiler: GrammarCompiler = COMPILER

    def build(self, clock: EngineClock) -> tuple[Engine, FakeRunner, Brake]:
        brake = Brake()
        runner = self.make_runner(brake)
        scheduler = make_scheduler(
            num_pages=self.num_pages,
            max_num_seqs=MAX_NUM_SEQS,
            max_num_batched_tokens=64,
            max_model_len=CONTEXT,
            eos_token_ids=frozenset({EOS}),
        )
        engine = Engine(scheduler, runner, self.tokenizer, clock=clock, grammars=runner.grammars)
        return engine, runner, brake

    def make_runner(self, brake: Brake) -> MaskedRunner:
        choose = ScriptedChoice(self.scripts)
        runner = MaskedRunner(self.num_pages, 4, choose, fail_on=self.fail_on, on_run=brake.wait)
        choose.fallback = runner.hash_token
        return runner


class ScriptedChoice:
    """Follows the script whose prompt begins the context, then says EOS; else hashes."""

    fallback: Callable[[list[int], int], int]

    def __init__(self, scripts: Script) -> None:
        self._scripts = {(BOS, *prompt): ids for prompt, ids in scripts.items()}
        self._scripts |= {tuple(prompt): ids for prompt, ids in scripts.items()}

    def __call__(self, context: list[int], seed: int) -> int:
        for prompt, ids in self._scripts.items():
            position = len(context) - len(prompt)
            if position >= 0 and tuple(context[: len(prompt)]) == prompt:
                return ids[position] if position < len(ids) else EOS
        return self.fallback(context, seed)


def run(
    scenario: Scenario, setup: Setup | None = None, *, timeout_seconds: float = TIMEOUT_SECONDS
) -> None:
    """Run `scenario` against a fresh server; then the engine must be idle and empty."""
    asyncio.run(asyncio.wait_for(_run(scenario, setup or Setup()), timeout_seconds))


async def _run(scenario: Scenario, setup: Setup) -> None:
    clock = EngineClock()
    engine, runner, brake = setup.build(clock)
    client = InProcessEngine(engine)
    template = ChatTemplate.from_gguf({"tokenizer.chat_template": setup.template})
    inputs = InputProcessor(
        setup.tokenizer,  # type: ignore[arg-type]
        template,
        vocab_size=setup.tokenizer.vocab_size,
        max_model_len=CONTEXT,
        max_num_seqs=MAX_NUM_SEQS,
        pooler=POOLER,
        grammars=setup.compiler,
    )
    metrics = EngineMetrics(MODEL, CONTEXT, {"block_size": "4"})
    dialects = dialects_of(
        setup.template,
        tools=setup.options.tool_call_parser,
        reasoning=setup.options.reasoning_parser,
    )
    model = ModelInfo(
        names=(MODEL, "alias"),
        max_model_len=CONTEXT,
        max_num_seqs=MAX_NUM_SEQS,
        created=1,
        config=EngineConfig(model="/models/fake.gguf", swap_dir="/swap"),
        takes_priority=setup.takes_priority,
        dialects=dialects,
    )
    tenants = load_tenants(setup.options)
    batches = BatchService(setup.options, tenants, clock) if setup.options.batch_dir else None
    app = build_app(client, inputs, model, setup.options, metrics, tenants, None, batches)
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    await client.start()
    try:
        if batches is not None:
            batches.start(LineCaller(app))
        async with httpx.AsyncClient(
            transport=transport,
            base_url="http://localhost",
            headers=dict(setup.headers),
            timeout=TIMEOUT_SECONDS,
        ) as http:
            server = Server(app, engine, client, http, metrics, brake, runner, clock)
            await scenario(server)
            brake.open()
            if batches is not None:
                await batches.close()
            await server.wait_idle()
    finally:
        brake.open()
        if batches is not None:
            await batches.close()
        await client.shutdown()


def parse_events(text: str) -> list[Json]:
    events: list[Json] = []
    for block in text.split("\n\n"):
        if block.startswith("data: "):
            data = block.removeprefix("data: ")
            events.append(data if data == "[DONE]" else json.loads(data))
        else:
            assert block == "" or block.startswith(":"), block
    return events


def error_of(response: httpx.Response, status: int = 400) -> Json:
    """The error object, in OpenAI's shape."""
    assert response.status_code == status, response.text
    body = response.json()
    assert set(body) == {"error"}
    assert set(body["error"]) == {"message", "type", "param", "code"}
    assert body["error"]["message"]
    return body["error"]


def choice_texts(events: Sequence[Json], num_choices: int = 1) -> list[str]:
    """What a stream's chunks say, joined per choice. Chat or completions."""
    texts = [""] * num_choices
    for event in events:
        for choice in event["choices"] if event != "[DONE]" else ():
            said = choice["text"] if "text" in choice else choice["delta"].get("content", "")
            texts[choice["index"]] += said
    return texts


def finish_reasons(events: Sequence[Json], num_choices: int = 1) -> list[list[str]]:
    """The reasons other than null, per choice."""
    reasons: list[list[str]] = [[] for _ in range(num_choices)]
    for event in events:
        for choice in event["choices"] if event != "[DONE]" else ():
            assert "finish_reason" in choice
            if choice["finish_reason"] is not None:
                reasons[choice["index"]].append(choice["finish_reason"])
    return reasons
