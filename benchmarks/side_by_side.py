"""Prefill, decode and batched decode of a model, side by side with the peers that are named.

    scripts/bench MODEL [--llama-bench PROGRAM] [--openvino-python P] [--vllm-python P]
        [--transformers-python P] [--peer-model PEER=FILE] [--targets] [--json FILE]

Each peer runs in its own Python and is loaded once; llama.cpp's programs load anew. The contenders
take turns, so that all see the same machine, and are stopped between their turns; a ratio is the
median of the ratios of the rounds. As in llama.cpp's programs, decode starts from an empty context,
batched decode from `--context` tokens in each sequence, and sampling costs next to nothing.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

import msgspec
import yaml

from benchmarks.peers.llama_cpp import LlamaCpp
from benchmarks.peers.octavo import octavo_worker
from benchmarks.peers.openvino import openvino_worker
from benchmarks.peers.plan import Contender, Plan
from benchmarks.peers.transformers import transformers_worker
from benchmarks.peers.vllm_cpu import vllm_worker
from benchmarks.rounds import (
    Round,
    add_rounds,
    conclude,
    peer_models,
    rates,
    ratios,
    rounds,
    save,
    start_wanted,
)
from octavo.bench.fingerprint import fingerprint
from octavo.bench.limits import StepCost, step_cost
from octavo.bench.machine import MachineRates, measure_machine
from octavo.bench.report import Metric, Report, now
from octavo.config.machine import this_machine
from octavo.hub.find import find_model
from octavo.kernels._native import isa_levels
from octavo.weights.gguf import GGUFFile

OCTAVO = "octavo"
HELD_DEFAULTS = {"dtype": "auto", "quantization": "none"}


def main() -> None:
    arguments = parse_arguments()
    path = find_model(arguments.model)
    plan = Plan(
        prompt_tokens=arguments.prompt_tokens,
        answer_tokens=arguments.answer_tokens,
        batch_sizes=arguments.batch_sizes,
        context=arguments.context,
        steps=arguments.steps,
    )
    with GGUFFile.open(path) as file:
        cost = cost_of_step(file, arguments)
    found: list[Round] = []
    limits: list[MachineRates] = []

    def report() -> Report:
        return report_of(path, arguments, found, cost, best_rates(limits))

    with ExitStack() as stack:
        contenders = start(path, plan, arguments, stack)
        for number in rounds(arguments):
            limits.append(measure_machine(arguments.threads, isa_of(arguments), "quick"))
            found.append(take_turns(contenders, plan))
            save(report(), arguments)
            if number == 0:  # from here on there is something to show, however the run ends
                stack.callback(lambda: conclude(report(), arguments))


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?", default="smollm2")
    parser.add_argument("--prompt-tokens", type=int, default=512)
    parser.add_argument("--answer-tokens", type=int, default=128)
    parser.add_argument("--batch-sizes", type=int, nargs="*", default=[8, 32])
    parser.add_argument("--context", type=int, default=128, help="of batched decode")
    parser.add_argument("--steps", type=int, default=32, help="of batched decode")
    parser.add_argument("--threads", type=int, default=this_machine().num_cores)
    parser.add_argument("--octavo", nargs="*", default=[], metavar="OPTION=VALUE")
    parser.add_argument("--llama-bench", type=Path, metavar="PROGRAM", help="with its siblings")
    for peer in ("openvino", "vllm", "transformers"):
        parser.add_argument(f"--{peer}-python", type=Path, metavar="PYTHON")
    parser.add_argument(
        "--peer-model",
        action="append",
        default=[],
        metavar="PEER=PATH",
        help="what a peer loads instead: vllm and transformers want a folder",
    )
    add_rounds(parser)
    return parser.parse_args()


def start(
    path: Path, plan: Plan, arguments: argparse.Namespace, stack: ExitStack
) -> list[Contender]:
    """octavo first. All are closed when `stack` is."""
    threads, most = arguments.threads, max(512, plan.prompt_tokens)
    model = peer_models(path, arguments)

    makers: list[tuple[object, Callable[[], Contender]]] = [
        (True, lambda: octavo_worker(path, threads, plan, octavo_options(arguments))),
        (
            arguments.llama_bench,
            lambda: LlamaCpp(arguments.llama_bench, model("llama.cpp"), threads),
        ),
        (
            arguments.openvino_python,
            lambda: openvino_worker(
                arguments.openvino_python, model("openvino"), threads, most, prefix_caching=False
            ),
        ),
        (
            arguments.vllm_python,
            lambda: vllm_worker(arguments.vllm_python, model("vllm"), threads, most),
        ),
        (
            arguments.transformers_python,
            lambda: transformers_worker(
                arguments.transformers_python, model("transformers"), threads
            ),
        ),
    ]
    return start_wanted(makers, stack)


def octavo_options(arguments: argparse.Namespace) -> dict[str, object]:
    """Fields of EngineConfig, their values written as in YAML."""
    pairs = (text.split("=", 1) for text in arguments.octavo)
    return {name: yaml.safe_load(value) for name, value in pairs}


def cost_of_step(file: GGUFFile, arguments: argparse.Namespace) -> StepCost:
    options = octavo_options(arguments)
    held = (str(options.get(name, value)) for name, value in HELD_DEFAULTS.items())
    return step_cost(file, *held)


def isa_of(arguments: argparse.Namespace) -> str:
    return str(octavo_options(arguments).get("isa", isa_levels()[0]))


def report_of(
    path: Path,
    arguments: argparse.Namespace,
    found: Sequence[Round],
    cost: StepCost,
    machine: MachineRates,
) -> Report:
    return Report(
        kind="side-by-side",
        created=now(),
        machine=fingerprint(arguments.threads, isa_of(arguments)),
        model=path.name,
        settings={
            "prompt_tokens": arguments.prompt_tokens,
            "answer_tokens": arguments.answer_tokens,
            "context": arguments.context,
            "octavo": " ".join(arguments.octavo),
        },
        rates=machine,
        metrics=[
            *(with_share(one, arguments.prompt_tokens, cost, machine) for one in rates(found)),
            *ratios(OCTAVO, found),
        ],
    )


def take_turns(contenders: Sequence[Contender], plan: Plan) -> Round:
    return {
        (one.name, f" {what}"): rate
        for one in contenders
        for what, rate in one.measure(plan).items()
    }


def best_rates(limits: Sequence[MachineRates]) -> MachineRates:
    """What other guests of the machine take from one measurement of its limits is not its own."""
    best = {
        name: max(getattr(one, name) for one in limits)
        for name in MachineRates.__struct_fields__
        if name.endswith("_per_second")
    }
    return msgspec.structs.replace(limits[0], **best)


def with_share(metric: Metric, prompt_tokens: int, cost: StepCost, machine: MachineRates) -> Metric:
    """How much of the machine's limit octavo reaches; the peers may hold other weights."""
    if not metric.name.startswith(f"{OCTAVO} "):
        return metric
    what = metric.name.removeprefix(f"{OCTAVO} ")
    if what == "prefill":
        num_tokens, num_logit_rows = prompt_tokens, 1
    else:
        num_tokens = num_logit_rows = int(what.removeprefix("decode").removeprefix(" batch ") or 1)
    least_seconds = cost.least_seconds(machine, num_tokens, num_logit_rows)
    share = metric.summary.median * least_seconds / num_tokens
    return msgspec.structs.replace(metric, share=share)


if __name__ == "__main__":
    main()
