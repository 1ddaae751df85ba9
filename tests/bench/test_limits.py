"""Costs of a step, against the model's own facts."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from octavo.bench.limits import Operations, StepCost, step_cost
from octavo.weights.gguf import GGUFFile
from tests.bench.reports import RATES


def test_the_slower_of_memory_and_arithmetic_sets_the_limit() -> None:
    cost = StepCost(100_000_000, per_token=Operations(int8=200_000_000), per_logit_row=Operations())
    assert cost.least_seconds(RATES, 1, 1) == pytest.approx(1e8 / 5e10)
    assert cost.least_seconds(RATES, 100, 1) == pytest.approx(2e10 / 1e12)
    assert cost.least_seconds(RATES, 100, 1, num_steps=50) == pytest.approx(50 * 1e8 / 5e10)


def test_logit_rows_cost_what_the_last_matrix_does() -> None:
    cost = StepCost(1, per_token=Operations(int8=10), per_logit_row=Operations(int8=1000))
    assert cost.operations(num_tokens=7, num_logit_rows=2) == Operations(int8=2070)


def test_each_kind_of_product_takes_the_time_of_its_own_rate() -> None:
    work = Operations(int8=1_000_000, f32=1_000_000, bf16=1_000_000)
    assert work.least_seconds(RATES) == pytest.approx(1e-6 + 5e-6 + 2.5e-6)


def test_reports_without_a_rate_of_bfloat16_count_it_as_float32() -> None:
    old = msgspec.structs.replace(RATES, bf16_operations_per_second=0.0)
    assert Operations(bf16=100).least_seconds(old) == Operations(f32=100).least_seconds(RATES)


def test_a_real_model_reads_nearly_its_whole_file(smollm2_path: Path) -> None:
    """SmolLM2: 134.5 million weights, all of them in matrices but for the norms."""
    with GGUFFile.open(smollm2_path) as file:
        cost = step_cost(file, "auto")
        as_float = step_cost(file, "float32")
        as_bf16 = step_cost(file, "bfloat16")
    file_bytes = smollm2_path.stat().st_size
    assert 0.95 * file_bytes < cost.weight_bytes < file_bytes
    assert as_float.weight_bytes == pytest.approx(4 * 134.5e6, rel=0.01)
    assert cost.per_logit_row == Operations(int8=2 * 49152 * 576)
    assert cost.operations(1, 1).int8 == pytest.approx(2 * 134.5e6, rel=0.01)
    assert as_float.operations(1, 1) == Operations(f32=cost.operations(1, 1).int8)
    assert as_bf16.operations(1, 1) == Operations(bf16=cost.operations(1, 1).int8)
