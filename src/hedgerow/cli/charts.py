"""Charts for the terminal: bars, and lines of braille dots."""

import math
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Annotated

import typer

from hedgerow.cli.output import colorize
from hedgerow.lib.text import escape_control_characters

MAX_LABEL_CHARS = 30
MAX_BARS = 200
MAX_LINES = 6
LINE_ROWS = 10
MIN_PLOT_WIDTH = 10
_COLORS = ("cyan", "magenta", "yellow", "green", "blue", "red")
_EIGHTHS = " ▏▎▍▌▋▊▉█"
# The bits of the dots of a braille character, by column and row.
_DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
_BRAILLE = 0x2800


class Chart(StrEnum):
    LINE = "line"
    BAR = "bar"


ChartOption = Annotated[
    Chart | None, typer.Option("--chart", help="Draw the numbers instead of a table.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartSeries:
    name: str
    values: Sequence[float]


def draw_chart(kind: Chart, labels: Sequence[str], series: Sequence[ChartSeries]) -> None:
    """Print a chart of one value of each series for each label."""
    for line in _draw(kind, labels, series, _plot_width()):
        print(line)


def _draw(
    kind: Chart, labels: Sequence[str], series: Sequence[ChartSeries], width: int
) -> Iterator[str]:
    if not labels or not series:
        yield "Nothing to draw."
    elif kind is Chart.BAR:
        yield from draw_bars(labels, series, width)
    else:
        yield from draw_lines(labels, series, width)


def _plot_width() -> int:
    return (
        shutil.get_terminal_size().columns if sys.stdout.isatty() or "COLUMNS" in os.environ else 80
    )


def draw_bars(labels: Sequence[str], series: Sequence[ChartSeries], width: int) -> Iterator[str]:
    """Yield horizontal bars: a group of one bar of each series for each label."""
    shown = [_shorten(label) for label in labels[:MAX_BARS]]
    numbers = [[format_number(value) for value in each.values[:MAX_BARS]] for each in series]
    margin = max(len(label) for label in shown)
    digits = max((len(text) for texts in numbers for text in texts), default=0)
    space = max(width - margin - digits - 4, MIN_PLOT_WIDTH)
    largest = max((abs(v) for each in series for v in each.values if math.isfinite(v)), default=0)
    if len(series) > 1:
        yield _draw_legend(series)
    for number, label in enumerate(shown):
        for order, each in enumerate(series):
            value = each.values[number]
            bar = _draw_bar(abs(value), largest, space)
            name = label if order == 0 else ""
            colored = colorize(bar, _COLORS[order % len(_COLORS)])
            yield f"{name:<{margin}}  {colored} {numbers[order][number]}"
    if len(labels) > MAX_BARS:
        yield f"and {len(labels) - MAX_BARS} more"


def _draw_bar(value: float, largest: float, width: int) -> str:
    if not largest or not math.isfinite(value):
        return ""
    eighths = round(value / largest * width * 8)
    # Something is never nothing.
    eighths = max(eighths, 1) if value else 0
    return "█" * (eighths // 8) + (_EIGHTHS[eighths % 8] if eighths % 8 else "")


def draw_lines(labels: Sequence[str], series: Sequence[ChartSeries], width: int) -> Iterator[str]:
    """Yield a plot with one line for each series, from zero or below to the largest value."""
    series = series[:MAX_LINES]
    finite = [v for each in series for v in each.values if math.isfinite(v)]
    top, bottom = max([*finite, 0]), min([*finite, 0])
    if top == bottom:
        top = bottom + 1
    marks = [format_number(top), format_number((top + bottom) / 2), format_number(bottom)]
    margin = max(map(len, marks))
    columns = max(width - margin - 2, MIN_PLOT_WIDTH)
    cells: dict[tuple[int, int], tuple[int, int]] = {}
    for order, each in enumerate(series):
        for x, y in _list_dots(each.values, columns * 2, LINE_ROWS * 4, (bottom, top)):
            place = (x // 2, y // 4)
            bits, _ = cells.get(place, (0, order))
            cells[place] = (bits | _DOTS[x % 2][y % 4], order)
    if len(series) > 1:
        yield _draw_legend(series)
    at = {0: marks[0], LINE_ROWS // 2: marks[1], LINE_ROWS - 1: marks[2]}
    for row in range(LINE_ROWS):
        yield f"{at.get(row, ''):>{margin}} │{_draw_row(cells, row, columns)}".rstrip()
    first, last = _shorten(labels[0]), _shorten(labels[-1])
    between = max(columns - len(first) - len(last), 1)
    yield " " * (margin + 2) + (first if len(labels) == 1 else first + " " * between + last)


def _list_dots(
    values: Sequence[float], width: int, height: int, limits: tuple[float, float]
) -> Iterator[tuple[int, int]]:
    """Yield the dots of a line from the first value at the left to the last at the right."""
    bottom, top = limits
    points = [
        (
            round(number / max(len(values) - 1, 1) * (width - 1)),
            round((top - value) / (top - bottom) * (height - 1)),
        )
        for number, value in enumerate(values)
        if math.isfinite(value)
    ]
    yield from points[:1]
    for (x1, y1), (x2, y2) in pairwise(points):
        steps = max(abs(x2 - x1), abs(y2 - y1), 1)
        for step in range(1, steps + 1):
            yield x1 + round((x2 - x1) * step / steps), y1 + round((y2 - y1) * step / steps)


def _draw_row(cells: dict[tuple[int, int], tuple[int, int]], row: int, columns: int) -> str:
    parts = []
    for column in range(columns):
        bits, order = cells.get((column, row), (0, 0))
        text = chr(_BRAILLE + bits) if bits else " "
        parts.append(colorize(text, _COLORS[order % len(_COLORS)]) if bits else text)
    return "".join(parts).rstrip()


def _draw_legend(series: Sequence[ChartSeries]) -> str:
    return "  ".join(
        colorize(f"■ {_shorten(each.name)}", _COLORS[order % len(_COLORS)])
        for order, each in enumerate(series)
    )


def _shorten(text: str) -> str:
    plain = escape_control_characters(text)
    return plain if len(plain) <= MAX_LABEL_CHARS else f"{plain[: MAX_LABEL_CHARS - 1]}…"


def format_number(value: float) -> str:
    if not math.isfinite(value):
        return "-"
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.2f}"
