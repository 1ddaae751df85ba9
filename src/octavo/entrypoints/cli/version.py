"""`octavo version`: what to put into a bug report."""

from __future__ import annotations

import argparse
import platform

from octavo import __version__
from octavo.kernels._native import isa_levels


def configure(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(execute=execute)


def execute(_: argparse.Namespace) -> int:
    print(f"octavo {__version__}")
    print(f"Python {platform.python_version()}, {platform.system()} {platform.machine()}")
    print(f"instruction sets: {', '.join(isa_levels())}")
    return 0
