"""Flags of `octavo simulate` and what they ask for: a machine, engines, a trace."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path

from octavo.bench.lengths import FORMS, parse_lengths
from octavo.entrypoints.cli.bench_machine import positive
from octavo.errors import ConfigError
from octavo.simulate.accelerators import ACCELERATORS, WIDTH_BYTES, find_accelerator
from octavo.simulate.arrivals import FORMS as ARRIVAL_FORMS
from octavo.simulate.arrivals import parse_arrivals
from octavo.simulate.cluster import Source
from octavo.simulate.measured import MeasuredTimes, profile_from_json
from octavo.simulate.model_shapes import MODEL_SHAPES, find_shape
from octavo.simulate.roofline import Deployment, Efficiency, RooflineTimes
from octavo.simulate.routers import ROUTERS
from octavo.simulate.simulation import EngineSettings, Setup
from octavo.simulate.step_load import StepTimes
from octavo.simulate.synthetic import LENGTHS, Recipe, make_trace
from octavo.simulate.trace import TraceRequest
from octavo.simulate.trace_files import read_trace

MAX_NUM_SEQS, MAX_NUM_BATCHED_TOKENS = 256, 2048


def add_machine(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("machine")
    group.add_argument(
        "--profile", type=Path, metavar="FILE", help="measured: of `octavo simulate fit`"
    )
    group.add_argument("--device", default="a100-80gb", help=", ".join(ACCELERATORS))
    group.add_argument("--model", default="llama-8b", help=", ".join(MODEL_SHAPES))
    group.add_argument(
        "--model-params",
        nargs="+",
        default=[],
        metavar="NAME=N",
        help="other sizes, such as num_layers=40 hidden_size=5120",
    )
    dtypes = ", ".join(WIDTH_BYTES)
    group.add_argument("--dtype", default="bfloat16", help=f"of weights: {dtypes}")
    group.add_argument("--kv-cache-dtype", default="bfloat16", metavar="DTYPE")
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
    group = parser.add_argument_group("engines")
    group.add_argument("--replicas", type=positive, default=1, metavar="N")
    group.add_argument("--router", default="least_loaded", help=", ".join(ROUTERS))
    group.add_argument(
        "--max-num-seqs", type=positive, metavar="N", help=f"(default: {MAX_NUM_SEQS})"
    )
    group.add_argument(
        "--max-num-batched-tokens",
        type=positive,
        metavar="TOKENS",
        help=f"(default: {MAX_NUM_BATCHED_TOKENS})",
    )
    group.add_argument("--max-model-len", type=positive, default=8192, metavar="TOKENS")
    group.add_argument(
        "--num-pages", type=positive, metavar="N", help="(default: what the weights leave)"
    )
    group.add_argument(
        "--enable-prefix-caching", action=argparse.BooleanOptionalAction, default=True
    )


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
    most = bounds.get("max_num_batched_tokens") or MAX_NUM_BATCHED_TOKENS
    engine = EngineSettings(
        num_pages=num_pages,
        max_num_seqs=namespace.max_num_seqs or bounds.get("max_num_seqs") or MAX_NUM_SEQS,
        max_num_batched_tokens=namespace.max_num_batched_tokens or most,
        max_model_len=namespace.max_model_len,
        enable_prefix_caching=namespace.enable_prefix_caching,
    )
    return Setup(
        times=times, engine=engine, num_replicas=namespace.replicas, router=namespace.router
    )


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
        shape=find_shape(namespace.model, {name: int(value) for name, value in sizes.items()}),
        dtype=namespace.dtype,
        kv_dtype=namespace.kv_cache_dtype,
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
