"""`octavo bench machine` and `octavo bench startup`: no model is run, or it only starts."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from octavo.bench.fingerprint import fingerprint
from octavo.bench.machine import Effort, MachineRates, measure_machine
from octavo.bench.report import Metric, Report, now, report_from_json
from octavo.bench.startup import Startup, compiled_code, drop_from_page_cache, measure_startup
from octavo.config.engine import EngineConfig
from octavo.config.machine import this_machine
from octavo.engine.model_file import resolve_for
from octavo.entrypoints.cli.bench_output import add_output, check_files, deliver
from octavo.entrypoints.cli.flags import add_config_file, add_options, read_options
from octavo.entrypoints.cli.loading import add_model, fetch
from octavo.entrypoints.progress import counting_bar
from octavo.errors import ConfigError
from octavo.kernels._native import isa_levels
from octavo.weights.gguf import GGUFFile


def configure_machine(parser: argparse.ArgumentParser) -> None:
    cores = this_machine().num_cores
    parser.add_argument("--threads", type=positive, default=cores, metavar="N")
    parser.add_argument("--isa", choices=isa_levels(), default=isa_levels()[0])
    parser.add_argument("--quick", action="store_true", help="about a second instead of ten")
    add_output(parser)
    parser.set_defaults(execute=run_machine)


def run_machine(namespace: argparse.Namespace) -> int:
    check_files(namespace)
    effort: Effort = "quick" if namespace.quick else "thorough"
    rates = measure_machine(namespace.threads, namespace.isa, effort)
    machine = fingerprint(namespace.threads, namespace.isa)
    deliver(Report(kind="machine", created=now(), machine=machine, rates=rates), namespace)
    return 0


def configure_startup(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    parser.add_argument("--repeats", type=positive, default=5, metavar="N")
    parser.add_argument(
        "--drop-cache",
        action="store_true",
        help="let the system forget the file before each start (best effort)",
    )
    parser.add_argument("--timeout", type=float, default=120.0, metavar="SECONDS")
    add_output(parser)
    add_config_file(parser)
    add_options(parser, EngineConfig, "engine", without=("model",))
    parser.set_defaults(execute=run_startup)


def run_startup(namespace: argparse.Namespace) -> int:
    check_files(namespace)
    values = dict(read_options(namespace, EngineConfig)[EngineConfig])
    config = replace(EngineConfig(**values), model=str(fetch(namespace.model)))  # type: ignore[arg-type]
    path = Path(config.model)
    arguments = [str(path), *engine_flags(values)]
    starts = []
    with counting_bar("Starting") as report, compiled_code() as environment:
        measure_startup(arguments, namespace.timeout, environment)  # uncounted: may compile
        for index in range(namespace.repeats):
            report(index, namespace.repeats)
            if namespace.drop_cache:
                drop_from_page_cache(path)
            starts.append(measure_startup(arguments, namespace.timeout, environment))
    deliver(
        Report(
            kind="startup",
            created=now(),
            machine=fingerprint(config.threads or this_machine().num_cores),
            model=path.name,
            settings={
                "drop_cache": namespace.drop_cache,
                "file_bytes": path.stat().st_size,
                "kv_cache_bytes": kv_cache_bytes(config),
            },
            metrics=startup_metrics(starts, path.stat().st_size),
        ),
        namespace,
    )
    return 0


def engine_flags(values: dict[str, object]) -> list[str]:
    """The engine options of this command line, as another's."""
    flags = []
    for name, value in values.items():
        key = name.replace("_", "-")
        if isinstance(value, bool):
            flags.append(f"--{key}" if value else f"--no-{key}")
        elif name != "model" and value is not None:
            flags += [f"--{key}", str(value)]
    return flags


def kv_cache_bytes(config: EngineConfig) -> int:
    """What a server with these options sets aside for keys and values, and takes as it is used."""
    with GGUFFile.open(config.model) as file:
        resolved, _ = resolve_for(file, config)
    assert resolved.config.kv_cache_memory is not None, "resolve decides it"
    return resolved.config.kv_cache_memory


def startup_metrics(starts: list[Startup], file_bytes: int) -> list[Metric]:
    """Pages of keys and values that nobody has written take no memory, so that an idle server's
    stands beside the file alone."""

    def metric(name: str, unit: str, samples: list[float]) -> Metric:
        return Metric(name=name, unit=unit, better="lower", samples=samples)

    phases = [
        metric(f"phase {phase}", "s", [start.phases[phase] for start in starts])
        for phase in starts[0].phases
        if all(phase in start.phases for start in starts)
    ]
    return [
        metric("process to ready", "s", [start.wall_seconds for start in starts]),
        *phases,
        metric("peak resident", "bytes", [float(start.peak_rss_bytes) for start in starts]),
        metric("idle resident", "bytes", [float(start.idle_rss_bytes) for start in starts]),
        metric(
            "idle beyond file", "bytes", [start.idle_rss_bytes - file_bytes for start in starts]
        ),
        metric(
            "same, shared pages once",
            "bytes",
            [start.idle_together_bytes - file_bytes for start in starts],
        ),
    ]


def read_rates(path: Path | None, threads: int, isa_level: str) -> MachineRates:
    """As a report of `octavo bench machine` has them, else measured quickly now."""
    if path is None:
        return measure_machine(threads, isa_level, "quick")
    rates = report_from_json(path.read_bytes(), str(path)).rates
    if rates is None:
        raise ConfigError(f"--machine {path} has no rates; one of `octavo bench machine` is needed")
    if (rates.threads, rates.isa_level) != (threads, isa_level):
        raise ConfigError(
            f"--machine {path} was measured with {rates.threads} threads at {rates.isa_level};"
            f" this run has {threads} at {isa_level}"
        )
    return rates


def positive(text: str) -> int:
    """For argparse: an integer from 1."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is given; an integer from 1 is allowed")
    return value
