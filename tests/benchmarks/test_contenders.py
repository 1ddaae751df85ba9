"""octavo itself as a contender, and the prompts that servers are asked."""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.peers.octavo import octavo_server, octavo_worker
from benchmarks.peers.plan import Plan
from benchmarks.peers.server import HttpContender
from benchmarks.serving import cases, room
from benchmarks.side_by_side import best_rates
from octavo.bench.machine import MachineRates


def arguments(**values: object) -> argparse.Namespace:
    defaults = {
        "clients": [1, 8],
        "requests_per_client": 1,
        "input_len": 16,
        "output_len": 4,
        "prefix_len": 32,
        "prefix_clients": 2,
    }
    return argparse.Namespace(**{**defaults, **values})


def test_the_best_of_several_measurements_is_the_machines_limit() -> None:
    def rates(memory: float, int8: float) -> MachineRates:
        return MachineRates(
            threads=2,
            isa_level="avx2",
            bytes_per_second=memory,
            cached_bytes_per_second=1.0,
            int8_operations_per_second=int8,
            f32_operations_per_second=1.0,
        )

    assert best_rates([rates(5.0, 1.0), rates(3.0, 2.0)]) == rates(5.0, 2.0)


def test_each_round_has_prompts_of_its_own() -> None:
    first, second = (
        {request.prompt for case in cases(number, arguments()) for request in case.requests}
        for number in (0, 1)
    )
    assert not first & second


def test_cold_and_warm_prompts_share_their_beginning_and_no_more() -> None:
    *_, cold, warm = cases(0, arguments())
    prompts = [request.prompt for request in (*cold.requests, *warm.requests)]
    assert len({" ".join(prompt.split(" ")[:32]) for prompt in prompts}) == 1
    assert len({prompt.split(" ", 32)[32] for prompt in prompts}) == 4


def test_a_few_clients_still_send_several_requests() -> None:
    single, eight = cases(0, arguments(prefix_len=0))
    assert (len(single.requests), len(eight.requests)) == (2, 8)


def test_there_is_room_for_the_longest_case() -> None:
    assert room(arguments()) == (8, 16 + 32 + 6 + 4)
    assert room(arguments(clients=[], prefix_len=0)) == (1, 16 + 2 + 4)


def test_octavo_is_measured_in_a_process_of_its_own(smollm2_path: Path) -> None:
    plan = Plan(prompt_tokens=32, answer_tokens=4, batch_sizes=[2], context=8, steps=2)
    options: dict[str, object] = {"kv_cache_memory": 1 << 24}
    worker = octavo_worker(smollm2_path, 1, plan, options)
    try:
        rates = worker.measure(plan)
    finally:
        worker.close()
    assert rates.keys() == {"prefill", "decode", "decode batch 2"}
    assert all(rate > 0 for rate in rates.values())


def test_octavos_server_is_asked_over_http(smollm2_path: Path) -> None:
    flags = ["--kv-cache-memory", "16M"]
    contender = HttpContender(
        "octavo",
        lambda port: octavo_server(smollm2_path, 1, port, flags),
        is_stopped_when_idle=False,
    )
    try:
        case = next(iter(cases(0, arguments())))
        assert contender.serve(case.requests, case.clients) > 0
    finally:
        contender.close()
