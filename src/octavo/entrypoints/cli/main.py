"""The `octavo` command: finds the subcommand, runs it, turns errors into one line and an exit code.

Only the chosen subcommand's module is imported, so that `octavo --help` answers at once.
Exit codes: 0 done, 1 it failed while running, 2 it was asked for wrongly, 130 interrupted.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from types import MappingProxyType
from typing import NoReturn

from octavo import __version__
from octavo.entrypoints.cli.parser import MISUSED, Parser
from octavo.errors import ConfigError, OctavoError

COMMANDS: Mapping[str, str] = MappingProxyType(
    {
        "run": "answer one prompt, or chat in the terminal",
        "serve": "serve a model over HTTP, as OpenAI's API",
        "generate": "answer a file of prompts",
        "run-batch": "answer a file of requests in OpenAI's batch format",
        "pull": "fetch a model into the cache",
        "models": "list the models that are known and cached",
        "bench": "measure this machine, a model, or a server",
        "simulate": "predict latency and throughput of engines under load",
        "inspect": "show what a model holds and how it will run, or a running server",
        "version": "print version, Python and instruction sets",
    }
)
FAILED, INTERRUPTED = 1, 130


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Entry point of the console script. Always raises SystemExit."""
    sys.exit(run_command(sys.argv[1:] if arguments is None else list(arguments)))


def run_command(arguments: Sequence[str]) -> int:
    """Run one command line; the exit code. Raises SystemExit for --help and wrong usage."""
    parsed = make_parser(arguments).parse_args(arguments)
    try:
        code: int = parsed.execute(parsed)
        sys.stdout.flush()
    except ConfigError as error:
        return _complain(error, MISUSED)
    except BrokenPipeError:
        # Whoever read our output went away; the interpreter must not flush into the pipe at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except (OctavoError, OSError, MemoryError) as error:
        return _complain(error, FAILED)
    except KeyboardInterrupt:
        return INTERRUPTED
    return code


def make_parser(arguments: Sequence[str]) -> argparse.ArgumentParser:
    """All commands by name; only the one that `arguments` choose with its own flags."""
    parser = Parser(
        prog="octavo",
        description="Inference and serving of large language models.",
        epilog="`octavo COMMAND --help` tells more about a command.",
    )
    parser.add_argument("--version", action="version", version=f"octavo {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    chosen = next((word for word in arguments if not word.startswith("-")), None)
    for name, summary in COMMANDS.items():
        description = f"{summary[0].upper()}{summary[1:]}."
        command = commands.add_parser(name, help=summary, description=description)
        if name == chosen:
            module = name.replace("-", "_")
            import_module(f"octavo.entrypoints.cli.{module}").configure(command)
    return parser


def _complain(error: BaseException, code: int) -> int:
    text = str(error)
    if isinstance(error, OSError) and error.filename is not None:
        text = f"{error.filename}: {error.strerror}"
    message = " ".join(text.split()) or type(error).__name__
    print(f"octavo: error: {message}", file=sys.stderr)
    return code
