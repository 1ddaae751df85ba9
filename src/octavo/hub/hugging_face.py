"""Model files on the Hugging Face hub, through its own client (which keeps its own cache).

The client honours the user's HF_* settings. Imported only when a hub id is asked for: it is slow to
load.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import HfApi, hf_hub_download, scan_cache_dir
from huggingface_hub.errors import CacheNotFound, RepositoryNotFoundError

from octavo.errors import FetchError

TIMEOUT_SECONDS = 5.0
PREFERRED = ("Q4_K_M", "Q4_0", "Q8_0")
"""Quantisations taken when an id names none, best bargain first."""


@dataclass(frozen=True, slots=True)
class HubId:
    """`organisation/name`, and what follows a colon: a file's name or a quantisation."""

    repository: str
    wanted: str | None


def parse_hub_id(text: str) -> HubId | None:
    """`org/name`, `org/name:Q4_K_M` or `org/name:file.gguf`; None for anything else."""
    match = re.fullmatch(r"([\w.-]+/[\w.-]+)(?::([\w./-]+))?", text)
    return HubId(match[1], match[2]) if match else None


def fetch_from_hub(hub_id: HubId) -> Path:
    """The GGUF file that `hub_id` means, downloaded if needed. Raises FetchError."""
    files = _list_files(hub_id.repository)
    file = choose_file(hub_id, files)
    return download_file(hub_id.repository, file)


def download_file(repository: str, file: str) -> Path:
    """One named file of a repository, from the hub's cache or the network. Raises FetchError."""
    try:
        return Path(hf_hub_download(repository, file, etag_timeout=TIMEOUT_SECONDS))
    except Exception as error:
        # What the client raises changes with its version and HTTP library; all of it means this.
        raise FetchError(f"{repository}: cannot fetch {file}: {_one_line(error)}") from None


def choose_file(hub_id: HubId, files: Sequence[str]) -> str:
    """The one of a repository's `files` that `hub_id` means. Raises FetchError with the choices."""
    models = sorted(file for file in files if file.lower().endswith(".gguf"))
    if not models:
        raise FetchError(
            f"{hub_id.repository} holds no GGUF file; other checkpoints are not read yet"
        )
    wanted = hub_id.wanted
    if wanted is not None and wanted.lower().endswith(".gguf"):
        found = [file for file in models if file == wanted]
    elif wanted is not None:
        found = [file for file in models if _has_quantisation(file, wanted)]
    else:
        found = models if len(models) == 1 else _preferred(models)
    if len(found) != 1:
        raise FetchError(
            f"{hub_id.repository}: {wanted or 'no quantisation given'} means {len(found)} files;"
            f" name one as {hub_id.repository}:FILE, of {', '.join(models)}"
        )
    if re.search(r"-\d{5}-of-\d{5}\.gguf$", found[0]):
        raise FetchError(f"{hub_id.repository}: {found[0]} is one part of several; not read yet")
    return found[0]


def _preferred(models: Sequence[str]) -> list[str]:
    for quantisation in PREFERRED:
        if found := [file for file in models if _has_quantisation(file, quantisation)]:
            return found
    return list(models)


def _has_quantisation(file: str, quantisation: str) -> bool:
    """True if `quantisation` stands in the name as a word of its own (Q4_K is not Q4_K_M)."""
    pattern = rf"(?<![A-Za-z0-9]){re.escape(quantisation)}(?![A-Za-z0-9_])"
    return re.search(pattern, file, re.IGNORECASE) is not None


def _list_files(repository: str) -> list[str]:
    try:
        info = HfApi().model_info(repository, timeout=TIMEOUT_SECONDS)
        return [sibling.rfilename for sibling in info.siblings or []]
    except RepositoryNotFoundError:
        raise FetchError(f"{repository}: no such repository on the hub, or no access") from None
    except Exception as error:
        # Without the network a repository means the files that were fetched before.
        if files := _cached_files(repository):
            return files
        raise FetchError(f"{repository}: the hub cannot be reached: {_one_line(error)}") from None


def _cached_files(repository: str) -> list[str]:
    try:
        repositories = scan_cache_dir().repos
    except CacheNotFound:
        return []
    return sorted(
        {
            str(file.file_path.relative_to(revision.snapshot_path))
            for repo in repositories
            if repo.repo_id == repository and repo.repo_type == "model"
            for revision in repo.revisions
            for file in revision.files
        }
    )


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
