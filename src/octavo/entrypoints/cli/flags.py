"""Flags made from dataclasses of options, and the way back from a command line to them."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypeVar

from octavo.config.engine import EngineConfig
from octavo.config.load import FlagValue, load_options
from octavo.config.options import Option, options_of
from octavo.config.server import ServerConfig
from octavo.entrypoints.cli.sampling import SamplingOptions

ALL_CONFIGS = (EngineConfig, ServerConfig, SamplingOptions)
"""Every dataclass of options that any command takes."""

Config = TypeVar("Config")


def add_options(
    parser: argparse.ArgumentParser, config: type, title: str, *, without: Iterable[str] = ()
) -> None:
    """A group of flags, one for each option. Absent flags stay absent from the namespace."""
    group = parser.add_argument_group(title)
    for item in options_of(config):
        if item.name not in without:
            _add_flag(group, item)


def add_config_file(parser: argparse.ArgumentParser) -> None:
    """--config: flags win over it, it wins over OCTAVO_* variables."""
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="YAML file of options, under the flags' names; flags win over it,"
        " it wins over OCTAVO_* environment variables",
    )


def read_options(
    namespace: argparse.Namespace, *declared: type
) -> Mapping[type, Mapping[str, object]]:
    """The merged values for each of `declared`. Raises ConfigError."""
    given: dict[str, FlagValue] = {
        item.name: getattr(namespace, item.name)
        for config in declared
        for item in options_of(config)
        if getattr(namespace, item.name, None) is not None
    }
    return load_options(declared, ALL_CONFIGS, given, namespace.config)


def _add_flag(group: argparse._ArgumentGroup, item: Option) -> None:
    help_text = _help(item)
    if item.kind == "switch":
        group.add_argument(
            item.flag,
            action=argparse.BooleanOptionalAction,
            default=argparse.SUPPRESS,
            help=help_text,
        )
        return
    metavar = item.metavar or ("{" + ",".join(item.choices) + "}" if item.choices else "VALUE")
    # The text is read and checked by `config.load`, as those of other origins are.
    group.add_argument(
        item.flag,
        metavar=metavar,
        default=argparse.SUPPRESS,
        action="append" if item.kind == "texts" else "store",
        help=help_text,
    )


def _help(item: Option) -> str:
    text = item.help_text.rstrip(".").replace("%", "%%")
    shows_default = item.default not in (None, "", ()) and "Default" not in text
    return f"{text} (default: {item.default})" if shows_default else text
