"""`octavo inspect`: what a model file holds, how options resolve, the program it becomes; and, in
`inspect_engine`, a running server."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Mapping
from dataclasses import fields

from rich.console import Console
from rich.table import Table

from octavo.config.engine import EngineConfig
from octavo.config.machine import this_machine
from octavo.config.options import Option, options_of
from octavo.core.model_config import ModelConfig
from octavo.engine.front import load_front
from octavo.entrypoints.cli import inspect_engine
from octavo.entrypoints.cli.flags import add_config_file, add_options, read_options
from octavo.entrypoints.cli.load_local import load
from octavo.entrypoints.cli.loading import add_model, engine_config, fetch
from octavo.errors import ConfigError
from octavo.kernels._native import isa_levels
from octavo.weights.gguf import GGUFFile

MAX_VALUE_CHARS = 80


def configure(parser: argparse.ArgumentParser) -> None:
    subjects = parser.add_subparsers(metavar="SUBJECT", required=True)
    model = subjects.add_parser("model", help="metadata and tensors of the file")
    add_model(model)
    model.add_argument("--tensors", action="store_true", help="list every tensor")
    model.set_defaults(execute=show_model)

    engine = subjects.add_parser("engine", help="a live view of a running server")
    inspect_engine.configure(engine)

    config = subjects.add_parser("config", help="every option's value here, and why")
    program = subjects.add_parser("program", help="the instructions that compute a step")
    program.add_argument(
        "--profile",
        type=int,
        metavar="TOKENS",
        help="run one step of so many tokens and show the time of each instruction",
    )
    for parser, execute in ((config, show_config), (program, show_program)):
        add_model(parser)
        add_config_file(parser)
        add_options(parser, EngineConfig, "engine", without=("model",))
        parser.set_defaults(execute=execute)


def show_model(namespace: argparse.Namespace) -> int:
    with GGUFFile.open(fetch(namespace.model)) as file:
        console = _console()
        console.print(f"{file.path}: {file.path.stat().st_size:,} bytes")
        console.print(_metadata_table(file.metadata))
        console.print(_type_table(file))
        if namespace.tensors:
            console.print(_tensor_table(file))
    return 0


def show_config(namespace: argparse.Namespace) -> int:
    values = read_options(namespace, EngineConfig)[EngineConfig]
    front = load_front(engine_config(values))
    machine = this_machine()
    console = _console()
    console.print(
        f"machine: {machine.num_cores} cores, {machine.memory_bytes >> 20:,} MiB of memory,"
        f" instruction sets {', '.join(isa_levels())}"
    )
    console.print(_facts_table(front.model))
    table = Table("option", "value", "why", box=None, header_style="bold")
    for item in options_of(EngineConfig):
        value = getattr(front.resolved.config, item.name)
        table.add_row(item.key, _shown_option(item, value), front.resolved.reasons[item.name])
    console.print(table)
    return 0


def show_program(namespace: argparse.Namespace) -> int:
    values = read_options(namespace, EngineConfig)[EngineConfig]
    config = engine_config(values)
    num_tokens: int | None = namespace.profile
    if num_tokens is not None and not 1 <= num_tokens <= config.max_num_batched_tokens:
        raise ConfigError(
            f"--profile is {num_tokens}; 1 to --max-num-batched-tokens"
            f" ({config.max_num_batched_tokens}) is allowed"
        )
    engine = load(config)
    try:
        seconds = None if num_tokens is None else engine.runner.profile(num_tokens)
        print(engine.runner.program.to_text(seconds), end="")
        if seconds is not None:
            print(f"sum {sum(seconds) * 1e3:.3f} ms for {num_tokens} tokens")
    finally:
        engine.close()
    return 0


def _metadata_table(metadata: Mapping[str, object]) -> Table:
    table = Table("key", "value", box=None, header_style="bold")
    for key, value in metadata.items():
        table.add_row(key, _shown(value))
    return table


def _type_table(file: GGUFFile) -> Table:
    counts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for info in file.tensors.values():
        counts[info.type_name] += 1
        sizes[info.type_name] += info.num_bytes
    table = Table("type", "tensors", "bytes", box=None, header_style="bold")
    for type_name, num_bytes in sizes.most_common():
        table.add_row(type_name, str(counts[type_name]), f"{num_bytes:,}")
    table.add_row("all", str(counts.total()), f"{sizes.total():,}")
    return table


def _tensor_table(file: GGUFFile) -> Table:
    table = Table("tensor", "type", "shape", "offset", "bytes", box=None, header_style="bold")
    for info in file.tensors.values():
        shape = " x ".join(map(str, info.shape))
        table.add_row(info.name, info.type_name, shape, str(info.offset), f"{info.num_bytes:,}")
    return table


def _facts_table(model: ModelConfig) -> Table:
    table = Table("model", "value", box=None, header_style="bold")
    for item in fields(model):
        if item.name != "layers":
            table.add_row(item.name, f"{getattr(model, item.name)}")
    table.add_row("layers", str(len(model.layers)))
    return table


def _shown_option(item: Option, value: object) -> str:
    if item.kind == "bytes" and isinstance(value, int):
        return f"{value} ({value / (1 << 20):.0f} MiB)"
    return str(value)


def _shown(value: object) -> str:
    """Any metadata value on one line."""
    if isinstance(value, str):
        text = repr(value)
    elif hasattr(value, "__len__"):
        text = f"[{len(value)} values]"
    else:
        text = str(value)
    return text if len(text) <= MAX_VALUE_CHARS else f"{text[: MAX_VALUE_CHARS - 3]}..."


def _console() -> Console:
    return Console(soft_wrap=True, highlight=False, markup=False)
