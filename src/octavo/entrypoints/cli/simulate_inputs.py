"""Flags of `octavo simulate` and what they ask for: a machine, engines, a trace."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path

from octavo.bench.lengths import FORMS, parse_lengths
from octavo.config.engine import EngineConfig
from octavo.config.options import from_keywords, options_of
from octavo.config.server import ServerConfig
from octavo.entrypoints.cli.bench_machine import positive
from octavo.entrypoints.cli.flags import add_config_file, add_options, read_options
from octavo.errors import ConfigError
from octavo.simulate.accelerators import ACCELERATORS, WIDTH_BYTES, find_accelerator
from octavo.simulate.arrivals import FORMS as ARRIVAL_FORMS
from octavo.simulate.arrivals import parse_arrivals
from octavo.simulate.cluster import Source
from octavo.simulate.measured import MeasuredTimes, profile_from_json
from octavo.simulate.model_shapes import MODEL_SHAPES, find_shape
from octavo.simulate.roofline import Deployment, Efficiency, RooflineTimes
from octavo.simulate.routers import ROUTERS
from octavo.simulate.simulation import Setup
from octavo.simulate.step_times import StepTimes
from octavo.simulate.synthetic import LENGTHS, Recipe, make_trace
from octavo.simulate.trace import TraceRequest
from octavo.simulate.trace_files import read_trace

ACCELERATOR_OPTIONS = {"max_num_seqs": 256, "max_num_batched_tokens": 2048}
"""Defaults where no measured profile has others: those of `octavo serve` are for processors."""

ENGINE_OPTIONS = (
    *("max_num_seqs", "max_num_batched_tokens", "max_model_len", "enable_prefix_caching"),
    *("scheduling_policy", "priority_ageing_seconds", "deadline_horizon_seconds"),
    *("reserve_high_priority", "max_step_seconds"),
)
SERVER_OPTIONS = (
    *("max_num_queued_reqs", "max_num_queued_tokens", "max_queue_seconds", "tenants"),
    *("requests_per_second", "request_burst", "tokens_per_second", "token_burst"),
    *("max_queued_requests_per_tenant", "max_queued_tokens_per_tenant"),
)


def add_machine(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("machine")
    group.add_argument(
        "--profile", type=Path, metavar="FILE", help="measured: of `octavo simulate fit`"
    )
    group.add_argument("--device", default="a100-80gb", help=", ".join(ACCELERATORS))
    group.add_argument(
        "--model",
        dest="shape",
        default="llama-8b",
        metavar="MODEL",
        help=", ".join(MODEL_SHAPES),
    )
    group.add_argument(
        "--model-params",
        nargs="+",
        default=[],
        metavar="NAME=N",
        help="other sizes, such as num_layers=40 hidden_size=5120",
    )
    dtypes = ", ".join(WIDTH_BYTES)
    # Named unlike the engine's options of the same flags, which take other values.
    for flag, name, what in (
        ("--dtype", "weight_dtype", "of weights"),
        ("--kv-cache-dtype", "kv_dtype", "of keys and values"),
    ):
        group.add_argument(
            flag, dest=name, default="bfloat16", metavar="DTYPE", help=f"{what}: {dtypes}"
        )
    group.add_argument("--tensor-parallel-size", type=positive, default=1, metavar="N")
    group.add_argument("--pipeline-parallel-size", type=positive, default=1, metavar="N")
    group.add_argument(
        "--efficiency",
        nargs="+",
        default=[],
        metavar="NAME=X",
        help="what of the data sheet is reached: "
        + " ".join(f"{item.name}={item.default:g}" for item in fields(Efficiency)),
    )


def add_engines(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("replicas")
    group.add_argument("--replicas", type=positive, default=1, metavar="N")
    group.add_argument("--router", default="least_loaded", help=", ".join(ROUTERS))
    group.add_argument(
        "--num-pages",
        type=positive,
        metavar="N",
        help="of 16 tokens, of each (default: what the weights leave)",
    )
    group.add_argument(
        "--admission", action="store_true", help="refuse requests as the server does"
    )
    add_config_file(parser)
    _add_some(parser, EngineConfig, "engine of each replica", ENGINE_OPTIONS)
    _add_some(parser, ServerConfig, "bounds, with --admission", SERVER_OPTIONS)


def _add_some(
    parser: argparse.ArgumentParser, config: type, title: str, names: Sequence[str]
) -> None:
    others = [item.name for item in options_of(config) if item.name not in names]
    add_options(parser, config, title, without=others)


def add_trace(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("requests")
    group.add_argument(
        "--trace",
        type=Path,
        metavar="FILE",
        help="JSON lines or CSV: time, prompt_tokens, output_tokens, and if wanted tenant,"
        " priority, timeout, max_tokens, prefix_id with prefix_tokens; Mooncake's, Azure's and"
        " BurstGPT's columns are known, too",
    )
    group.add_argument("--speed-up", type=float, default=1.0, metavar="X", help="of --trace")
    group.add_argument("--num-requests", type=positive, default=1000, metavar="N")
    group.add_argument("--request-rate", type=float, default=1.0, metavar="PER_SECOND")
    group.add_argument("--arrivals", default="poisson", help=ARRIVAL_FORMS)
    group.add_argument(
        "--clients", type=positive, metavar="N", help="closed loop: each waits for its answer"
    )
    group.add_argument("--lengths", default="sharegpt", help=", ".join(LENGTHS))
    group.add_argument("--input-len", metavar="LENGTHS", help=FORMS)
    group.add_argument("--output-len", metavar="LENGTHS", help=FORMS)
    group.add_argument(
        "--tenant",
        nargs="+",
        default=[],
        metavar="NAME=SHARE",
        help="who sends how much of it, such as busy=50 quiet=1",
    )
    group.add_argument("--num-prefixes", type=int, default=0, metavar="N", help="shared beginnings")
    group.add_argument("--prefix-len", type=int, default=0, metavar="TOKENS", help="of each")
    group.add_argument(
        "--max-tokens", type=positive, metavar="N", help="what requests ask for, at most"
    )
    group.add_argument("--timeout", type=float, metavar="SECONDS", help="of each request")
    group.add_argument("--seed", type=int, default=0, metavar="N")


def setup_of(namespace: argparse.Namespace) -> Setup:
    times, bounds = _measured(namespace) if namespace.profile else _roofline(namespace)
    num_pages = namespace.num_pages or bounds.get("num_pages")
    if num_pages is None:
        raise ConfigError(f"{namespace.profile} does not tell the pages; give --num-pages")
    given = read_options(namespace, EngineConfig, ServerConfig)
    return Setup(
        times=times,
        num_pages=num_pages,
        page_windows=times.profile.page_windows if isinstance(times, MeasuredTimes) else (0,),
        engine=_engine(given[EngineConfig], bounds),
        server=from_keywords(ServerConfig, _only(given[ServerConfig], SERVER_OPTIONS)),
        has_admission=namespace.admission,
        num_replicas=namespace.replicas,
        router=namespace.router,
    )


def _engine(given: Mapping[str, object], bounds: Mapping[str, int | None]) -> EngineConfig:
    """What is not given is as the profile was measured, or as accelerators are run."""
    usual: dict[str, object] = {
        name: bounds.get(name) or value for name, value in ACCELERATOR_OPTIONS.items()
    }
    return from_keywords(EngineConfig, usual | _only(given, ENGINE_OPTIONS))


def _only(given: Mapping[str, object], names: Sequence[str]) -> dict[str, object]:
    return {name: value for name, value in given.items() if name in names}


def num_devices(namespace: argparse.Namespace) -> int:
    """Of one replica."""
    if namespace.profile:
        return 1
    return int(namespace.tensor_parallel_size * namespace.pipeline_parallel_size)


def _measured(namespace: argparse.Namespace) -> tuple[StepTimes, Mapping[str, int | None]]:
    profile = profile_from_json(namespace.profile.read_bytes(), str(namespace.profile))
    names = ("num_pages", "max_num_seqs", "max_num_batched_tokens")
    return MeasuredTimes(profile), {name: getattr(profile, name) for name in names}


def _roofline(namespace: argparse.Namespace) -> tuple[StepTimes, Mapping[str, int | None]]:
    sizes = parse_pairs(namespace.model_params, "--model-params")
    deployment = Deployment(
        device=find_accelerator(namespace.device),
        shape=find_shape(namespace.shape, {name: int(value) for name, value in sizes.items()}),
        dtype=namespace.weight_dtype,
        kv_dtype=namespace.kv_dtype,
        tensor=namespace.tensor_parallel_size,
        pipeline=namespace.pipeline_parallel_size,
        efficiency=_efficiency(namespace.efficiency),
    )
    return RooflineTimes(deployment), {"num_pages": deployment.num_pages}


def _efficiency(texts: Sequence[str]) -> Efficiency:
    values = parse_pairs(texts, "--efficiency")
    allowed = [item.name for item in fields(Efficiency)]
    for name in values:
        if name not in allowed:
            raise ConfigError(f"--efficiency names {name!r}; {', '.join(allowed)} are allowed")
    return Efficiency(**values)


def parse_pairs(texts: Sequence[str], flag: str) -> dict[str, float]:
    """["a=1"] -> {"a": 1.0}. Raises ConfigError naming the flag."""
    pairs = {}
    for text in texts:
        name, _, value = text.partition("=")
        try:
            pairs[name] = float(value)
        except ValueError:
            raise ConfigError(f"{flag} is {text!r}; NAME=NUMBER is allowed") from None
    return pairs


def source_of(namespace: argparse.Namespace) -> Source:
    for flag in ("request_rate", "speed_up", "timeout"):
        value = getattr(namespace, flag)
        if value is not None and not 0 < value < 1e9:
            name = flag.replace("_", "-")
            raise ConfigError(f"--{name} is {value}; a number above 0 is allowed")
    requests = (
        read_trace(namespace.trace, speed_up=namespace.speed_up)
        if namespace.trace
        else _synthetic(namespace)
    )
    return Source(requests, namespace.clients)


def _synthetic(namespace: argparse.Namespace) -> list[TraceRequest]:
    if namespace.lengths not in LENGTHS:
        raise ConfigError(
            f"--lengths is {namespace.lengths!r}; one of {', '.join(LENGTHS)} is allowed"
        )
    inputs, outputs = LENGTHS[namespace.lengths]
    if namespace.input_len is not None:
        inputs = parse_lengths(namespace.input_len, "--input-len")
    if namespace.output_len is not None:
        outputs = parse_lengths(namespace.output_len, "--output-len")
    for flag in ("num_prefixes", "prefix_len"):
        if getattr(namespace, flag) < 0:
            name = flag.replace("_", "-")
            raise ConfigError(f"--{name} is {getattr(namespace, flag)}; 0 or more is allowed")
    return make_trace(
        Recipe(
            num_requests=namespace.num_requests,
            rate=namespace.request_rate,
            input_lengths=inputs,
            output_lengths=outputs,
            arrivals=parse_arrivals(namespace.arrivals, "--arrivals"),
            tenants=_tenants(namespace.tenant),
            num_prefixes=namespace.num_prefixes,
            num_prefix_tokens=namespace.prefix_len,
            max_tokens=namespace.max_tokens,
            timeout_seconds=namespace.timeout,
            seed=namespace.seed,
        )
    )


def _tenants(texts: Sequence[str]) -> Mapping[str, float]:
    shares = parse_pairs(texts, "--tenant") or {"": 1.0}
    for name, share in shares.items():
        if not 0 < share < 1e9:
            raise ConfigError(f"--tenant gives {name!r} a share of {share:g}; above 0 is allowed")
    return shares
