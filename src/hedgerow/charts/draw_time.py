"""Draws series over time: axes, lines or stacked bars, legend."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hedgerow.charts.model import DrawnSeries, TimeChart
from hedgerow.charts.numbers import choose_ticks, format_short
from hedgerow.charts.svg import WIDTH, Svg, fit_text, measure
from hedgerow.charts.theme import GRID, MARGIN, MUTED, TEXT, choose_color

PLOT_HEIGHT = 280.0
AXIS_SIZE = 11.0
LEGEND_SIZE = 12.0
LEGEND_LABEL_MAX = 220.0
LEGEND_ROW = 20.0
# Between two labels of the time axis.
LABEL_GAP = 18.0
MAX_DOTS = 45


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """The area inside the axes, and the values of its top and bottom."""

    left: float
    right: float
    top: float
    lowest: float
    highest: float
    count: int
    is_bars: bool

    @property
    def bottom(self) -> float:
        return self.top + PLOT_HEIGHT

    def x(self, number: int) -> float:
        if self.is_bars:
            return self.left + (number + 0.5) * self.slot
        if self.count == 1:
            return (self.left + self.right) / 2
        return self.left + number * (self.right - self.left) / (self.count - 1)

    def y(self, value: float) -> float:
        return self.bottom - (value - self.lowest) / (self.highest - self.lowest) * PLOT_HEIGHT

    @property
    def slot(self) -> float:
        return (self.right - self.left) / max(self.count, 1)


def draw_time_chart(chart: TimeChart, svg: Svg, top: float) -> float:
    """Draw the chart below `top` and return where it ends."""
    ticks = choose_ticks(*_find_bounds(chart))
    texts = [format_short(tick, chart.unit) for tick in ticks]
    axis_width = max(measure(text, AXIS_SIZE) for text in texts) + 10
    plot = Plot(
        left=MARGIN + axis_width,
        right=WIDTH - MARGIN - (0 if chart.is_bars else 6),
        top=top + 8,
        lowest=ticks[0],
        highest=ticks[-1],
        count=len(chart.moments),
        is_bars=chart.is_bars,
    )
    for tick, text in zip(ticks, texts, strict=True):
        y = plot.y(tick)
        svg.line((plot.left, y), (WIDTH - MARGIN, y), MUTED if tick == 0 else GRID)
        svg.text((plot.left - 8, y + 4), text, size=AXIS_SIZE, color=MUTED, anchor="end")
    _draw_moments(chart, plot, svg)
    if chart.is_bars:
        _draw_bars(chart, plot, svg)
    else:
        _draw_lines(chart, plot, svg)
    return _draw_legend(chart, svg, plot.bottom + 30)


def _find_bounds(chart: TimeChart) -> tuple[float, float]:
    if not chart.is_bars:
        values = [value for series in chart.series for value in series.values]
        return min(values, default=0.0), max(values, default=0.0)
    stacks = list(_stack(chart))
    return (
        min((low for _, _, low, _ in stacks), default=0.0),
        max((high for _, _, _, high in stacks), default=0.0),
    )


def _draw_moments(chart: TimeChart, plot: Plot, svg: Svg) -> None:
    """Draw as many labels of the time axis as fit, evenly spaced."""
    if not chart.moments:
        return
    widest = max(measure(text, AXIS_SIZE) for text in chart.moments) + LABEL_GAP
    fitting = max(1, int((plot.right - plot.left) / widest))
    step = -(-len(chart.moments) // fitting)
    for number in range(0, len(chart.moments), step):
        x, text = plot.x(number), chart.moments[number]
        half = measure(text, AXIS_SIZE) / 2
        x = min(max(x, MARGIN + half), WIDTH - MARGIN - half)
        svg.text((x, plot.bottom + 18), text, size=AXIS_SIZE, color=MUTED, anchor="middle")


def _draw_lines(chart: TimeChart, plot: Plot, svg: Svg) -> None:
    # The period before is behind.
    for series in sorted(chart.series, key=lambda each: not each.is_previous):
        color = choose_color(series.number)
        points = [(plot.x(number), plot.y(value)) for number, value in enumerate(series.values)]
        if len(points) > 1:
            svg.polyline(points, color, is_dashed=series.is_previous)
        if len(points) <= MAX_DOTS and not series.is_previous:
            for point in points:
                svg.circle(point, 2.5 if len(points) > 1 else 5, color)


def _draw_bars(chart: TimeChart, plot: Plot, svg: Svg) -> None:
    width = min(plot.slot * 0.7, 90.0)
    for series, number, low, high in _stack(chart):
        top, bottom = plot.y(high), plot.y(low)
        x = plot.x(number) - width / 2
        svg.rect(x, top, width, bottom - top, choose_color(series.number))


def _stack(chart: TimeChart) -> Iterator[tuple[DrawnSeries, int, float, float]]:
    """Yield each part of a stack with its lower and upper end. The period before is left out."""
    for number in range(len(chart.moments)):
        above = below = 0.0
        for series in chart.series:
            value = series.values[number] if number < len(series.values) else 0
            if series.is_previous or not value:
                continue
            if value > 0:
                yield series, number, above, above + value
                above += value
            else:
                yield series, number, below + value, below
                below += value


def _draw_legend(chart: TimeChart, svg: Svg, top: float) -> float:
    """Draw the labels of the series in rows."""
    x, y = MARGIN, top + 14
    for series, label in _list_labels(chart):
        width = measure(label, LEGEND_SIZE) + 34
        if x + width > WIDTH - MARGIN and x > MARGIN:
            x, y = MARGIN, y + LEGEND_ROW
        color = choose_color(series.number)
        if series.is_previous:
            svg.polyline([(x, y - 4), (x + 14, y - 4)], color, is_dashed=True)
        else:
            svg.rect(x, y - 9, 12, 10, color, radius=3)
        svg.text((x + 20, y), label, size=LEGEND_SIZE, color=TEXT)
        x += width
    if chart.omitted:
        text = f"and {chart.omitted:,} more"
        if x + measure(text, LEGEND_SIZE) > WIDTH - MARGIN:
            x, y = MARGIN, y + LEGEND_ROW
        svg.text((x, y), text, size=LEGEND_SIZE, color=MUTED)
    return y + 14


def _list_labels(chart: TimeChart) -> Sequence[tuple[DrawnSeries, str]]:
    return [
        (series, fit_text(series.label, LEGEND_SIZE, LEGEND_LABEL_MAX))
        for series in chart.series
        if not (chart.is_bars and series.is_previous)
    ]
