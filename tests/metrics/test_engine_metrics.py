from __future__ import annotations

import time

from prometheus_client.parser import text_string_to_metric_families

from octavo.core.outputs import EngineOutputs, EngineStats, RequestTimes, SequenceOutput
from octavo.core.request import EngineRequest
from octavo.core.sampling_params import SamplingParams
from octavo.metrics.buckets import token_buckets
from octavo.metrics.engine_metrics import MAX_UNCOUNTED_STEPS, EngineMetrics

PAGE_FACTS = {"block_size": "16", "cache_dtype": "auto"}


def _samples(metrics: EngineMetrics) -> dict[str, float]:
    """Values by name and the labels beyond model and engine, which every sample must carry."""
    values = {}
    for family in text_string_to_metric_families(metrics.text().decode()):
        for sample in family.samples:
            labels = dict(sample.labels)
            assert (labels.pop("model_name"), labels.pop("engine")) == ("m", "0")
            suffix = "".join(f" {name}={value}" for name, value in sorted(labels.items()))
            values[sample.name + suffix] = sample.value
    return values


def _metrics() -> EngineMetrics:
    return EngineMetrics("m", 100, PAGE_FACTS)


def _submit(metrics: EngineMetrics, request_id: str, n: int = 1) -> None:
    metrics.submitted(
        EngineRequest(
            request_id=request_id,
            prompt_token_ids=[1, 2],
            sampling_params=SamplingParams(n=n, max_tokens=5),
            arrival_time=time.time() - 1.0,
        )
    )


def _token(request_id: str, index: int = 0, **rest: object) -> SequenceOutput:
    return SequenceOutput(request_id=request_id, index=index, token_ids=[7], **rest)  # type: ignore[arg-type]


def test_everything_is_there_before_the_first_request() -> None:
    metrics = _metrics()
    metrics.started({}, num_pages=9)
    values = _samples(metrics)
    assert values["vllm:num_requests_running"] == 0
    assert values["vllm:kv_cache_usage_perc"] == 0
    facts = "block_size=16 cache_dtype=auto num_gpu_blocks=9"
    assert values[f"vllm:cache_config_info {facts}"] == 1
    for reason in ("stop", "length", "abort", "error", "repetition"):
        assert values[f"vllm:request_success_total finished_reason={reason}"] == 0


def test_state_follows_the_latest_snapshot_and_counters_grow_by_the_difference() -> None:
    metrics = _metrics()
    for step in (1, 2):
        metrics.stepped(
            EngineOutputs(
                stats=EngineStats(
                    num_running=3 - step,
                    num_waiting=step,
                    num_pages=10,
                    num_used_pages=step,
                    num_steps=step,
                    num_prompt_tokens=5 * step,
                    num_generation_tokens=7 * step,
                    num_step_tokens=12 * step,
                    num_undefined_rows=step,
                    prefix_cache_queries=20,
                    prefix_cache_hits=8,
                )
            )
        )
    values = _samples(metrics)
    assert values["vllm:num_requests_running"] == 1
    assert values["vllm:num_requests_waiting"] == 2
    assert values["vllm:kv_cache_usage_perc"] == 0.2
    assert values["vllm:prompt_tokens_total"] == 10
    assert values["vllm:generation_tokens_total"] == 14
    assert values["vllm:prefix_cache_queries_total"] == 20
    assert values["vllm:prefix_cache_hits_total"] == 8
    assert values["octavo:steps_total"] == 2
    assert values["octavo:undefined_logit_rows_total"] == 2
    assert values["vllm:iteration_tokens_total_count"] == 2
    assert values["vllm:iteration_tokens_total_sum"] == 24


def test_every_step_is_counted_whenever_it_is_asked() -> None:
    metrics = _metrics()
    num_steps = 2 * MAX_UNCOUNTED_STEPS + 3
    for step in range(1, num_steps + 1):
        stats = EngineStats(num_steps=step, num_step_tokens=2 * step, num_running=step)
        metrics.stepped(EngineOutputs(stats=stats))
        if step in (1, MAX_UNCOUNTED_STEPS + 1, num_steps):
            values = _samples(metrics)
            assert values["octavo:steps_total"] == step
            assert values["vllm:iteration_tokens_total_sum"] == 2 * step
            assert values["vllm:num_requests_running"] == step


def test_first_and_later_tokens_are_told_apart_per_sequence() -> None:
    metrics = _metrics()
    _submit(metrics, "r", n=2)
    metrics.stepped(EngineOutputs(outputs=[_token("r", 0), _token("r", 1)]))
    metrics.stepped(EngineOutputs(outputs=[_token("r", 0)]))
    values = _samples(metrics)
    assert values["vllm:time_to_first_token_seconds_count"] == 2
    assert values["vllm:time_to_first_token_seconds_sum"] >= 2.0
    assert values["vllm:inter_token_latency_seconds_count"] == 1
    assert values["vllm:request_params_n_sum"] == 2
    assert values["vllm:request_params_max_tokens_sum"] == 5


def test_each_sequence_finishes_once_with_its_reason_and_times() -> None:
    metrics = _metrics()
    _submit(metrics, "r", n=2)
    times = RequestTimes(
        queue_seconds=1.0,
        prefill_seconds=2.0,
        decode_seconds=3.0,
        num_prompt_tokens=2,
        num_generation_tokens=4,
    )
    outputs = [_token("r", 0, finish_reason="length"), _token("r", 1, finish_reason="abort")]
    metrics.stepped(EngineOutputs(outputs=outputs, finished=[("r", 0, times), ("r", 1, times)]))
    values = _samples(metrics)
    assert values["vllm:request_success_total finished_reason=length"] == 1
    assert values["vllm:request_success_total finished_reason=abort"] == 1
    assert values["vllm:e2e_request_latency_seconds_count"] == 2
    assert values["vllm:request_queue_time_seconds_sum"] == 2
    assert values["vllm:request_prefill_time_seconds_sum"] == 4
    assert values["vllm:request_decode_time_seconds_sum"] == 6
    assert values["vllm:request_inference_time_seconds_sum"] == 10
    assert values["vllm:request_prompt_tokens_sum"] == 4
    assert values["vllm:request_generation_tokens_sum"] == 8


def test_requests_of_a_dead_engine_finish_as_errors_and_its_counters_go_on() -> None:
    metrics = _metrics()
    _submit(metrics, "r", n=2)
    stats = EngineStats(num_running=2, num_pages=4, num_used_pages=2, num_steps=5)
    metrics.stepped(EngineOutputs(outputs=[_token("r", 1, finish_reason="stop")], stats=stats))
    metrics.lost(("r",))
    metrics.stepped(EngineOutputs(stats=EngineStats(num_steps=1, num_pages=4)))
    values = _samples(metrics)
    assert values["vllm:request_success_total finished_reason=stop"] == 1
    assert values["vllm:request_success_total finished_reason=error"] == 1
    assert values["vllm:num_requests_running"] == 0
    assert values["octavo:steps_total"] == 6


def test_requests_that_were_aborted_as_the_engine_died_finish_as_aborted() -> None:
    metrics = _metrics()
    _submit(metrics, "given up", n=2)
    _submit(metrics, "open")
    metrics.lost(("open",))
    values = _samples(metrics)
    assert values["vllm:request_success_total finished_reason=abort"] == 2
    assert values["vllm:request_success_total finished_reason=error"] == 1


def test_start_up_is_shown_by_phase() -> None:
    metrics = _metrics()
    metrics.started({"load": 0.5, "total": 0.75}, num_pages=9)
    values = _samples(metrics)
    assert values["octavo:startup_seconds phase=load"] == 0.5
    assert values["octavo:startup_seconds phase=total"] == 0.75
    assert values["octavo:num_pages"] == 9


def test_token_buckets_end_with_the_context() -> None:
    assert token_buckets(60) == (1, 2, 5, 10, 20, 50)
    assert token_buckets(0) == (1,)


def test_two_servers_in_one_process_count_apart() -> None:
    first, second = _metrics(), _metrics()
    first.started({}, num_pages=9)
    assert _samples(second)["octavo:num_pages"] == 0
