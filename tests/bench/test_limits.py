"""Costs of a step, against the model's own facts."""

from __future__ import annotations

from pathlib import Path

import pytest

from octavo.bench.limits import StepCost, step_cost
from octavo.weights.gguf import GGUFFile
from tests.bench.reports import RATES


def test_the_slower_of_memory_and_arithmetic_sets_the_limit() -> None:
    cost = StepCost(
        weight_bytes=100_000_000, operations_per_token=200_000_000, operations_per_logit_row=0
    )
    assert cost.least_seconds(RATES, 1, 1) == pytest.approx(1e8 / 5e10)
    assert cost.least_seconds(RATES, 100, 1) == pytest.approx(2e10 / 1e12)
    assert cost.least_seconds(RATES, 100, 1, num_steps=50) == pytest.approx(50 * 1e8 / 5e10)


def test_logit_rows_cost_what_the_last_matrix_does() -> None:
    cost = StepCost(weight_bytes=1, operations_per_token=10, operations_per_logit_row=1000)
    assert cost.operations(num_tokens=7, num_logit_rows=2) == 2070


def test_a_real_model_reads_nearly_its_whole_file(smollm2_path: Path) -> None:
    """SmolLM2: 134.5 million weights, all of them in matrices but for the norms."""
    with GGUFFile.open(smollm2_path) as file:
        cost = step_cost(file, "auto")
        as_float = step_cost(file, "float32")
    file_bytes = smollm2_path.stat().st_size
    assert 0.95 * file_bytes < cost.weight_bytes < file_bytes
    assert as_float.weight_bytes == pytest.approx(4 * 134.5e6, rel=0.01)
    assert cost.operations_per_logit_row == 2 * 49152 * 576
    assert cost.operations(1, 1) == pytest.approx(2 * 134.5e6, rel=0.01)
