"""Prometheus metrics of one served model, fed by what the engine says. Knows no HTTP and no engine.

Names with the `vllm:` prefix mean what they mean there, so that dashboards and autoscalers work
unchanged; ours have the prefix `octavo:`. "Request" in a `vllm:` name counts sequences: a request
with n = 3 is three, as it is there.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

from prometheus_client import generate_latest

from octavo.core.outputs import EngineOutputs, EngineStats, RequestTimes, SequenceOutput
from octavo.core.request import EngineRequest
from octavo.errors import RefusalCode
from octavo.metrics import buckets
from octavo.metrics.factory import MetricFactory
from octavo.metrics.scheduling_metrics import SCHEDULING_COUNTERS, SchedulingMetrics

MAX_UNCOUNTED_STEPS = 64
"""What steps said is counted so many at a time, or when asked. A step of the model leaves no cache
with the code and data of counting: 48 us per step one by one, 12 us so (SmolLM2, one client)."""


@dataclass(slots=True)
class _OpenRequest:
    """What must be remembered of a request until its last sequence has finished."""

    request: EngineRequest
    num_open: int
    latest_token_times: dict[int, float]


class EngineMetrics:
    """An `EngineObserver` (see `engine.client`). `page_facts` are shown as `cache_config_info`.

    `shares_process`: the engine computes in this process, whose processor time is then its own.
    `policy` is the scheduling policy's name; `tenants` have a label each, whoever else comes.
    """

    def __init__(
        self,
        model_name: str,
        max_model_len: int,
        page_facts: dict[str, str],
        *,
        shares_process: bool = False,
        policy: str = "fcfs",
        tenants: Iterable[str] = (),
    ) -> None:
        make = MetricFactory(model_name)
        self._shares_process = shares_process
        self._front_cpu = make.counter(
            "octavo:front_cpu_seconds", "Processor time of the HTTP server's process."
        )
        self._front_cpu_seconds = 0.0
        self._make = make
        self._open: dict[str, _OpenRequest] = {}
        self._uncounted: list[tuple[float, EngineOutputs]] = []
        self._stats = EngineStats()
        self._state = _StateMetrics(make, page_facts)
        self._latency = _LatencyMetrics(make)
        self._sizes = _SizeMetrics(make, max_model_len)
        self._scheduling = SchedulingMetrics(make, policy, tenants)
        self._finished = make.counters(
            "vllm:request_success",
            "Finished requests by reason.",
            "finished_reason",
            ("stop", "length", "abort", "error", "repetition"),
        )
        self._start_seconds = make.gauges(
            "octavo:startup_seconds", "Duration of each phase of starting.", ("phase",)
        )

    def text(self) -> bytes:
        """The exposition format of Prometheus."""
        self._count()
        if not self._shares_process:
            before, self._front_cpu_seconds = self._front_cpu_seconds, time.process_time()
            self._front_cpu.inc(self._front_cpu_seconds - before)
        return generate_latest(self._make.registry)

    def started(self, seconds: dict[str, float], num_pages: int) -> None:
        """The engine is ready. May be called again after a restart."""
        for phase, duration in seconds.items():
            self._make.labelled(self._start_seconds, phase).set(duration)
        self._state.started(num_pages)

    def refused(self, code: RefusalCode) -> None:
        """A request was refused at admission."""
        self._scheduling.refused(code)

    def submitted(self, request: EngineRequest) -> None:
        num_sequences = request.sampling_params.n
        self._open[request.request_id] = _OpenRequest(request, num_sequences, {})
        self._sizes.submitted(request)

    def stepped(self, outputs: EngineOutputs) -> None:
        self._uncounted.append((time.time(), outputs))
        if len(self._uncounted) >= MAX_UNCOUNTED_STEPS:
            self._count()

    def _count(self) -> None:
        uncounted, self._uncounted = self._uncounted, []
        before = self._stats
        for now, outputs in uncounted:
            for request_id, _, times in outputs.finished:
                self._ended(request_id, times)
            for output in outputs.outputs:
                self._heard(output, now)
            self._state.step(outputs.stats, self._stats)
            self._stats = outputs.stats
        if uncounted:
            self._state.grow(self._stats, before)
            self._show()

    def _show(self) -> None:
        self._state.show(self._stats)
        self._scheduling.show(self._stats)

    def lost(self, request_ids: Iterable[str]) -> None:
        """The engine died. What is open here beside `request_ids` had been aborted, and the engine
        did not come to say so."""
        self._count()
        for request_id in request_ids:
            if entry := self._open.pop(request_id, None):
                self._finished["error"].inc(entry.num_open)
        for entry in self._open.values():
            self._finished["abort"].inc(entry.num_open)
        self._open.clear()
        self._stats = EngineStats()
        self._show()

    def _ended(self, request_id: str, times: RequestTimes) -> None:
        self._latency.finished(times)
        self._sizes.finished(times)
        if entry := self._open.get(request_id):
            self._scheduling.finished(entry.request.tenant, times)

    def _heard(self, output: SequenceOutput, now: float) -> None:
        entry = self._open.get(output.request_id)
        if entry is None:
            return
        arrival_time = entry.request.arrival_time
        if output.token_ids:
            latest = entry.latest_token_times.get(output.index)
            self._latency.token(latest, arrival_time, now)
            entry.latest_token_times[output.index] = now
        if output.finish_reason is not None:
            self._finished[output.finish_reason].inc()
            self._latency.whole_request.observe(max(0.0, now - arrival_time))
            entry.num_open -= 1
            if entry.num_open == 0:
                del self._open[output.request_id]


class _StateMetrics:
    """What the engine's snapshots say: gauges are set, counters grow by the difference."""

    def __init__(self, make: MetricFactory, page_facts: dict[str, str]) -> None:
        self._make = make
        self._running = make.gauge("vllm:num_requests_running", "Sequences being computed.")
        self._waiting = make.gauge("vllm:num_requests_waiting", "Sequences waiting for a slot.")
        self._usage = make.gauge(
            "vllm:kv_cache_usage_perc",
            "Share of pages that sequences hold (1 is all). Pages only cached count as free.",
        )
        self._num_pages = make.gauge("octavo:num_pages", "Pages of key/value memory.")
        self._cached = make.gauge("octavo:num_cached_pages", "Pages only the prefix cache holds.")
        self._step_tokens = make.histogram(
            "vllm:iteration_tokens_total", "Tokens computed per step.", buckets.STEP_TOKENS
        )
        self._page_facts = page_facts
        self._page_info = make.gauges(
            "vllm:cache_config_info",
            "Key/value memory as configured. num_gpu_blocks is the number of pages, on any device.",
            (*page_facts, "num_gpu_blocks"),
        )
        self._counters = {
            field: make.counter(name, text) for field, name, text in _SNAPSHOT_COUNTERS
        }

    def started(self, num_pages: int) -> None:
        self._num_pages.set(num_pages)
        facts = {**self._page_facts, "num_gpu_blocks": str(num_pages)}
        self._make.labelled(self._page_info, *facts.values()).set(1)

    def show(self, now: EngineStats) -> None:
        self._running.set(now.num_running)
        self._waiting.set(now.num_waiting)
        self._usage.set(now.num_used_pages / now.num_pages if now.num_pages else 0.0)
        self._cached.set(now.num_cached_pages)

    def step(self, now: EngineStats, before: EngineStats) -> None:
        if now.num_steps > before.num_steps:
            self._step_tokens.observe(now.num_step_tokens - before.num_step_tokens)

    def grow(self, now: EngineStats, before: EngineStats) -> None:
        for field, counter in self._counters.items():
            difference = getattr(now, field) - getattr(before, field)
            if difference:
                counter.inc(difference)


_SNAPSHOT_COUNTERS = (
    ("num_steps", "octavo:steps", "Steps that the engine has computed."),
    ("step_seconds", "octavo:step_seconds", "Time spent in steps."),
    ("cpu_seconds", "octavo:engine_cpu_seconds", "Processor time of the engine's process."),
    (
        "python_cpu_seconds",
        "octavo:engine_python_cpu_seconds",
        "The part of it that the engine's thread spent outside native code.",
    ),
    (
        "num_undefined_rows",
        "octavo:undefined_logit_rows",
        "Tokens drawn from logits that were all NaN or -inf.",
    ),
    ("num_preemptions", "vllm:num_preemptions", "Sequences put back for want of pages."),
    ("prefix_cache_queries", "vllm:prefix_cache_queries", "Prompt tokens looked up."),
    ("prefix_cache_hits", "vllm:prefix_cache_hits", "Prompt tokens found in the prefix cache."),
    ("num_prompt_tokens", "vllm:prompt_tokens", "Prompt tokens processed."),
    ("num_generation_tokens", "vllm:generation_tokens", "Tokens generated."),
    *SCHEDULING_COUNTERS,
)


class _LatencyMetrics:
    """How long things took: tokens by the server's clock, phases by the engine's."""

    def __init__(self, make: MetricFactory) -> None:
        self._first_token = make.histogram(
            "vllm:time_to_first_token_seconds",
            "From arrival to the first token.",
            buckets.FIRST_TOKEN_SECONDS,
        )
        self._between_tokens = make.histogram(
            "vllm:inter_token_latency_seconds",
            "Between two outputs of a sequence.",
            buckets.BETWEEN_TOKENS_SECONDS,
        )
        seconds = buckets.REQUEST_SECONDS
        self.whole_request = make.histogram(
            "vllm:e2e_request_latency_seconds", "From arrival to the end.", seconds
        )
        self._queue = make.histogram(
            "vllm:request_queue_time_seconds", "Waiting for a slot.", seconds
        )
        self._prefill = make.histogram(
            "vllm:request_prefill_time_seconds", "From the slot to the first token.", seconds
        )
        self._decode = make.histogram(
            "vllm:request_decode_time_seconds", "From the first token to the last.", seconds
        )
        self._inference = make.histogram(
            "vllm:request_inference_time_seconds", "From the slot to the last token.", seconds
        )

    def token(self, latest_time: float | None, arrival_time: float, now: float) -> None:
        if latest_time is None:
            self._first_token.observe(max(0.0, now - arrival_time))
        else:
            self._between_tokens.observe(max(0.0, now - latest_time))

    def finished(self, times: RequestTimes) -> None:
        self._queue.observe(times.queue_seconds)
        self._prefill.observe(times.prefill_seconds)
        self._decode.observe(times.decode_seconds)
        self._inference.observe(times.prefill_seconds + times.decode_seconds)


class _SizeMetrics:
    """How big requests are and what they ask for."""

    def __init__(self, make: MetricFactory, max_model_len: int) -> None:
        tokens = buckets.token_buckets(max_model_len)
        self._prompt = make.histogram("vllm:request_prompt_tokens", "Prompt tokens.", tokens)
        self._generated = make.histogram(
            "vllm:request_generation_tokens", "Generated tokens.", tokens
        )
        self._n = make.histogram("vllm:request_params_n", "The parameter n.", buckets.SEQUENCES)
        self._max_tokens = make.histogram(
            "vllm:request_params_max_tokens", "The parameter max_tokens.", tokens
        )

    def submitted(self, request: EngineRequest) -> None:
        params = request.sampling_params
        self._n.observe(params.n)
        if params.max_tokens is not None:
            self._max_tokens.observe(params.max_tokens)

    def finished(self, times: RequestTimes) -> None:
        self._prompt.observe(times.num_prompt_tokens)
        self._generated.observe(times.num_generation_tokens)
