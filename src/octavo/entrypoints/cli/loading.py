"""From a command line to the options of an engine whose model lies on this machine."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

from octavo.config.engine import EngineConfig
from octavo.errors import ConfigError
from octavo.hub.find import find_local, find_model


def add_model(parser: argparse.ArgumentParser, *, is_required: bool = True) -> None:
    parser.add_argument(
        "model",
        metavar="MODEL",
        nargs=None if is_required else "?",
        help="path of a GGUF file, a name from `octavo models`, or a hub id (org/name[:file])",
    )


def fetch(name: str) -> Path:
    """The model's file on this machine, after a download if need be."""
    if not name:
        raise ConfigError("no MODEL is given: a path, a name from `octavo models` or a hub id")
    if path := find_local(name):
        return path
    # Only now: a server whose file is here draws no bar, and need not wait for what could.
    from octavo.entrypoints.progress import download_bar

    with download_bar(f"Fetching {name}") as report:
        return find_model(name, report)


def engine_config(values: Mapping[str, object]) -> EngineConfig:
    """The options of an engine whose model lies on this machine."""
    path = fetch(str(values.get("model", "")))
    return EngineConfig(**{**values, "model": str(path)})  # type: ignore[arg-type]
