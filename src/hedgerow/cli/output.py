"""Output of commands: tables, JSON, colour, progress and confirmation prompts."""

import json
import os
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from itertools import zip_longest
from typing import Any, TextIO

import typer

from hedgerow.errors import OperatorError
from hedgerow.lib.text import escape_control_characters

MIN_COLUMN_WIDTH = 12
_GAP = "  "


def print_json(value: Any) -> None:
    print(json.dumps(value, ensure_ascii=False, default=str))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, empty: str = "") -> None:
    """Print rows under their column names, or `empty` when there is no row.

    A terminal gets values wrapped to its width. A pipe gets one whole line per row.
    """
    texts = [[escape_control_characters(value) for value in row] for row in rows]
    if not texts and empty:
        print(empty)
        return
    widths = [
        max(_count_cells(value) for value in values) for values in zip(columns, *texts, strict=True)
    ]
    if sys.stdout.isatty():
        widths = _shrink(widths, os.get_terminal_size(sys.stdout.fileno()).columns)
    for line in _lay_out(columns, widths):
        print(colorize(line, bold=True))
    for row in texts:
        for line in _lay_out(row, widths):
            print(line)


def _shrink(widths: Sequence[int], available: int) -> list[int]:
    """Take the missing cells from the widest columns."""
    fitted = list(widths)
    limit = max(available - len(_GAP) * (len(fitted) - 1), MIN_COLUMN_WIDTH * len(fitted))
    while sum(fitted) > limit:
        widest = max(range(len(fitted)), key=fitted.__getitem__)
        if fitted[widest] <= MIN_COLUMN_WIDTH:
            break
        fitted[widest] -= 1
    return fitted


def _lay_out(row: Sequence[str], widths: Sequence[int]) -> Iterator[str]:
    """Yield the lines of one row, with long values folded into their column."""
    cells = [list(_fold(value, width)) for value, width in zip(row, widths, strict=True)]
    for parts in zip_longest(*cells, fillvalue=""):
        padded = [
            part + " " * (width - _count_cells(part))
            for part, width in zip(parts, widths, strict=True)
        ]
        yield _GAP.join(padded).rstrip()


def _fold(text: str, width: int) -> Iterator[str]:
    while _count_cells(text) > width:
        end = width
        while _count_cells(text[:end]) > width:
            end -= 1
        space = text.rfind(" ", 0, end + 1)
        end = space if space > 0 else max(end, 1)
        yield text[:end]
        text = text[end:].lstrip()
    yield text


def _count_cells(text: str) -> int:
    """Return the width of a text in a terminal, where East Asian characters take two cells."""
    if text.isascii():
        return len(text)
    return sum(2 if unicodedata.east_asian_width(each) in "WF" else 1 for each in text)


def has_color(stream: TextIO) -> bool:
    """Return whether to colour a stream: in a terminal, unless NO_COLOR is set."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def colorize(text: str, color: str | None = None, *, bold: bool = False) -> str:
    return typer.style(text, fg=color, bold=bold or None) if has_color(sys.stdout) else text


def confirm(question: str) -> None:
    """Ask, and raise OperatorError unless the answer is yes."""
    if not sys.stdin.isatty():
        raise OperatorError(
            "Nothing was changed: there is no terminal to ask on. Confirm with --yes."
        )
    if not typer.confirm(question):
        raise OperatorError("Nothing was changed.")


def confirm_name(what: str, name: str) -> None:
    """Ask to type a name, and raise OperatorError if it is another one."""
    if not sys.stdin.isatty():
        raise OperatorError(
            "Nothing was changed: there is no terminal to ask on. Confirm with --yes."
        )
    if typer.prompt(f"Type the name of {what} to go on") != name:
        raise OperatorError("Nothing was changed: the name is another one.")


class ProgressBar:
    """One bar of a progress display. Without a terminal it counts and shows nothing."""

    def __init__(self, display: Any = None, task: Any = None) -> None:
        self._display = display
        self._task = task

    def advance(self, count: int = 1) -> None:
        if self._display is not None:
            self._display.advance(self._task, count)

    def move_to(self, count: int) -> None:
        if self._display is not None:
            self._display.update(self._task, completed=count)


class ProgressDisplay:
    """Progress bars on stderr, each named for the unit that it counts."""

    def __init__(self, display: Any = None) -> None:
        self._display = display

    def add_bar(self, unit: str, total: int | None, completed: int = 0) -> ProgressBar:
        if self._display is None:
            return ProgressBar()
        task = self._display.add_task(unit, total=total, completed=completed)
        return ProgressBar(self._display, task)


@contextmanager
def show_progress(*, counts_bytes: bool = False) -> Iterator[ProgressDisplay]:
    """Show progress bars while the block runs, if stderr is a terminal."""
    if not sys.stderr.isatty():
        yield ProgressDisplay()
        return
    # Loaded here because rich takes 0.1 s of CPU, and only a terminal needs it.
    console, bars = import_module("rich.console"), import_module("rich.progress")
    count = bars.DownloadColumn() if counts_bytes else bars.MofNCompleteColumn()
    with bars.Progress(
        bars.TextColumn("{task.description}", markup=False),
        bars.BarColumn(),
        count,
        bars.TimeRemainingColumn(),
        console=console.Console(stderr=True),
    ) as display:
        yield ProgressDisplay(display)
