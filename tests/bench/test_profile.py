"""Processor time by part: read from metrics, compared, shared out."""

from __future__ import annotations

import pytest

from octavo.bench.profile import ProcessorTime, parse_processor_time
from octavo.core.outputs import EngineOutputs, EngineStats
from octavo.errors import ConfigError
from octavo.metrics.engine_metrics import EngineMetrics


def test_the_counters_of_our_own_server_are_read() -> None:
    metrics = EngineMetrics("m", 100, {})
    stats = EngineStats(cpu_seconds=4.0, python_cpu_seconds=0.5)
    metrics.stepped(EngineOutputs(stats=stats))
    read = parse_processor_time(metrics.text().decode(), "http://h")
    assert (read.engine, read.engine_python) == (4.0, 0.5)
    assert read.front > 0


def test_an_engine_in_the_same_process_is_counted_once() -> None:
    metrics = EngineMetrics("m", 100, {}, shares_process=True)
    metrics.stepped(EngineOutputs(stats=EngineStats(cpu_seconds=4.0)))
    assert parse_processor_time(metrics.text().decode(), "http://h").front == 0.0


def test_another_servers_metrics_are_refused() -> None:
    text = 'vllm:prompt_tokens_total{engine="0"} 5.0\n'
    with pytest.raises(ConfigError, match="http://h does not count processor time"):
        parse_processor_time(text, "http://h")


def test_what_is_no_computation_is_overhead() -> None:
    spent = ProcessorTime(3.0, 20.0, 2.5).since(ProcessorTime(1.0, 10.0, 1.5))
    assert spent.overhead_share == pytest.approx(0.25)
    assert spent.results() == {
        "cpu_front_seconds": 2.0,
        "cpu_engine_python_seconds": 1.0,
        "cpu_native_seconds": 9.0,
        "cpu_overhead_percent": pytest.approx(25.0),
    }
    nothing = ProcessorTime(1.0, 1.0, 1.0).since(ProcessorTime(1.0, 1.0, 1.0))
    assert nothing.overhead_share == 0.0
