"""`octavo models`: the catalogue, and what lies in the cache."""

from __future__ import annotations

import argparse

from rich.console import Console
from rich.table import Table

from octavo.hub.cache import cached_file, cached_models, models_folder
from octavo.hub.catalogue import CATALOGUE


def configure(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(execute=execute)


def execute(_: argparse.Namespace) -> int:
    table = Table("name", "size", "cached", "what it is", box=None, header_style="bold")
    for model in CATALOGUE.values():
        is_cached = cached_file(model.file, model.num_bytes) is not None
        table.add_row(
            model.name, _size(model.num_bytes), "yes" if is_cached else "no", model.description
        )
    known = {model.file for model in CATALOGUE.values()}
    for path in cached_models():
        if path.name not in known:
            table.add_row(str(path), _size(path.stat().st_size), "yes", "")
    console = Console(soft_wrap=True)
    console.print(table)
    console.print(f"\ncache folder: {models_folder()}", highlight=False)
    return 0


def _size(num_bytes: int) -> str:
    return f"{num_bytes / 1e6:.0f} MB"
