"""Progress bars and notes on standard error. Where that is no terminal, there are no bars."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

Report = Callable[[int, int], None]
"""Called with (done so far, in all)."""


@contextmanager
def download_bar(what: str) -> Iterator[Report]:
    """A bar in bytes that appears with the first report."""
    with _bar(DownloadColumn(), TransferSpeedColumn()) as bar:
        yield _reporter(bar, what)


@contextmanager
def counting_bar(what: str) -> Iterator[Report]:
    """A bar in counts that appears with the first report and goes when done."""
    with _bar(MofNCompleteColumn(), transient=True) as bar:
        yield _reporter(bar, what)


class BatchBar:
    """Prompts finished and tokens made, for a batch."""

    def __init__(self, num_prompts: int, *, is_shown: bool) -> None:
        speed = TextColumn("{task.fields[speed]}")
        self._bar = _bar(MofNCompleteColumn(), TimeRemainingColumn(), speed, is_shown=is_shown)
        self._task = self._bar.add_task("Prompts", total=num_prompts, speed="")
        self._num_tokens = 0

    def __enter__(self) -> BatchBar:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def add(self, *, num_tokens: int, num_prompts: int) -> None:
        """So many more tokens were made and prompts finished."""
        self._num_tokens += num_tokens
        elapsed_seconds = self._bar.tasks[0].elapsed or 0.0
        speed = self._num_tokens / elapsed_seconds if elapsed_seconds > 0 else 0.0
        self._bar.update(self._task, advance=num_prompts, speed=f"{speed:.0f} tokens/s")


def note(text: str) -> None:
    """One line that is not part of the output."""
    print(text, file=sys.stderr)


def _bar(*columns: ProgressColumn, transient: bool = False, is_shown: bool = True) -> Progress:
    console = Console(stderr=True)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        *columns,
        console=console,
        transient=transient,
        disable=not (is_shown and console.is_terminal),
    )


def _reporter(bar: Progress, what: str) -> Report:
    task = bar.add_task(what, total=None, visible=False)

    def report(done: int, total: int) -> None:
        bar.update(task, completed=done, total=total, visible=True)

    return report
