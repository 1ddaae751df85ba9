"""`octavo pull`: a model's file into the cache, checked."""

from __future__ import annotations

import argparse

from octavo.entrypoints.cli.loading import add_model, fetch


def configure(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    parser.set_defaults(execute=execute)


def execute(namespace: argparse.Namespace) -> int:
    print(fetch(namespace.model))
    return 0
