"""`octavo run`: one answer for a prompt, or a chat."""

from __future__ import annotations

import argparse
import sys

from octavo.config.engine import EngineConfig
from octavo.entrypoints.cli.chat import Terminal
from octavo.entrypoints.cli.flags import add_config_file, add_options, read_options
from octavo.entrypoints.cli.load_local import load
from octavo.entrypoints.cli.loading import add_model, engine_config
from octavo.entrypoints.cli.sampling import SamplingOptions
from octavo.errors import ConfigError
from octavo.hub.catalogue import CATALOGUE


def configure(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    parser.add_argument(
        "prompt",
        metavar="PROMPT",
        nargs="?",
        help="what to answer; without it, standard input if that is no terminal, else a chat",
    )
    parser.add_argument(
        "--system", metavar="TEXT", help="system message of the conversation (default: the model's)"
    )
    add_config_file(parser)
    add_options(parser, SamplingOptions, "sampling")
    add_options(parser, EngineConfig, "engine", without=("model",))
    parser.set_defaults(execute=execute, last_word="prompt")


def execute(namespace: argparse.Namespace) -> int:
    values = read_options(namespace, EngineConfig, SamplingOptions)
    params = SamplingOptions(**values[SamplingOptions]).params()  # type: ignore[arg-type]
    prompt = _prompt(namespace.prompt)
    engine = load(engine_config(values[EngineConfig]))
    try:
        if namespace.system is not None and engine.front.template is None:
            raise ConfigError("--system needs a model with a chat template; this one has none")
        terminal = Terminal(engine, params, _system(namespace), sys.stdout)
        if prompt is not None:
            terminal.answer(prompt)
        else:
            _enable_line_editing()
            terminal.loop()
    finally:
        engine.close()
    return 0


def _prompt(given: str | None) -> str | None:
    if given is not None or sys.stdin.isatty():
        return given
    text = sys.stdin.read().removesuffix("\n")
    if not text:
        raise ConfigError("standard input is empty; give a PROMPT or pipe one in")
    return text


def _system(namespace: argparse.Namespace) -> str | None:
    """The system message: as given, else as the catalogue has it for a model of its own."""
    if namespace.system is not None:
        return str(namespace.system)
    known = CATALOGUE.get(namespace.model)
    return (known.system_message or None) if known else None


def _enable_line_editing() -> None:
    """Importing readline gives `input` a history and cursor keys; some Pythons lack it."""
    try:
        import readline  # noqa: F401
    except ImportError:
        return
