from __future__ import annotations

from benchmarks.scheduling.step_cost import measure


def test_a_step_of_a_few_is_measured_with_others_waiting() -> None:
    cost = measure(4, 10, "fair")
    assert (cost.num_running, cost.num_waiting) == (4, 10)
    assert min(cost.schedule, cost.apply, cost.observe, cost.snapshot) > 0
