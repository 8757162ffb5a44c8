"""Draws charts as SVG: a heading, the chart, a footer."""

from collections.abc import Sequence
from functools import singledispatch

from hedgerow.charts.draw_time import draw_time_chart
from hedgerow.charts.model import (
    BarChart,
    Body,
    Cell,
    FunnelChart,
    MessageChart,
    NumberChart,
    Picture,
    TableChart,
    TimeChart,
)
from hedgerow.charts.numbers import format_number, format_percent
from hedgerow.charts.svg import WIDTH, Svg, fit_text, measure
from hedgerow.charts.theme import (
    ACCENT,
    BACKGROUND,
    FAINT,
    GRID,
    MARGIN,
    MUTED,
    NEGATIVE,
    POSITIVE,
    TEXT,
    TRACK,
    mix_accent,
)

INNER_WIDTH = WIDTH - 2 * MARGIN
HEADING_HEIGHT = 78.0
FOOTER_HEIGHT = 34.0
ROW_HEIGHT = 30.0


def draw_chart(chart: Picture) -> str:
    """Return the chart as an SVG document."""
    svg, drawing = Svg(), Svg()
    bottom = _draw_body(chart.body, drawing, HEADING_HEIGHT) + FOOTER_HEIGHT
    svg.rect(0, 0, WIDTH, bottom, BACKGROUND)
    svg.text((MARGIN, 36), chart.title, size=20, color=TEXT, width=INNER_WIDTH, is_bold=True)
    svg.text((MARGIN, 58), chart.subtitle, size=13, color=MUTED, width=INNER_WIDTH)
    svg.add(drawing)
    svg.text((MARGIN, bottom - 14), chart.footer, size=11, color=FAINT, width=INNER_WIDTH)
    return svg.document(bottom)


@singledispatch
def _draw_body(body: Body, svg: Svg, top: float) -> float:
    raise TypeError(f"cannot draw {type(body).__name__}")


@_draw_body.register
def _(body: TimeChart, svg: Svg, top: float) -> float:
    return draw_time_chart(body, svg, top)


@_draw_body.register
def _(body: MessageChart, svg: Svg, top: float) -> float:
    svg.rect(MARGIN, top, INNER_WIDTH, 160, TRACK, radius=8)
    svg.text(
        (WIDTH / 2, top + 86),
        body.text,
        size=15,
        color=MUTED,
        width=INNER_WIDTH - 40,
        anchor="middle",
    )
    return top + 170


@_draw_body.register
def _(body: NumberChart, svg: Svg, top: float) -> float:
    svg.text(
        (WIDTH / 2, top + 110),
        format_number(body.value),
        size=88,
        color=TEXT,
        anchor="middle",
        is_bold=True,
    )
    if body.change:
        svg.text(
            (WIDTH / 2, top + 152),
            body.change,
            size=16,
            color=POSITIVE if body.is_increase else NEGATIVE,
            anchor="middle",
            is_bold=True,
        )
    return top + 180


@_draw_body.register
def _(body: BarChart, svg: Svg, top: float) -> float:
    longest = max((abs(bar.value) for bar in body.bars), default=0) or 1
    labels_width = min(
        max((measure(fit_text(bar.label, 13, 260), 13) for bar in body.bars), default=0) + 13, 273
    )
    left, y = MARGIN + labels_width, top
    space = INNER_WIDTH - labels_width - 90
    for bar in body.bars:
        svg.text((MARGIN, y + 20), bar.label, size=13, color=TEXT, width=labels_width - 12)
        width = max(2.0, space * abs(bar.value) / longest) if bar.value else 0
        svg.rect(left, y + 4, width, 22, ACCENT if bar.value >= 0 else NEGATIVE, radius=3)
        svg.text(
            (left + width + 8, y + 20),
            format_number(bar.value),
            size=13,
            color=TEXT,
            width=90,
            is_bold=True,
        )
        y += ROW_HEIGHT
    return _draw_omitted(svg, y, body.omitted)


@_draw_body.register
def _(body: FunnelChart, svg: Svg, top: float) -> float:
    first, before, y = body.steps[0].count, body.steps[0].count, top
    for number, step in enumerate(body.steps, start=1):
        share = step.count / first if first else 0.0
        svg.circle((MARGIN + 11, y + 13), 11, ACCENT)
        svg.text(
            (MARGIN + 11, y + 17.5),
            str(number),
            size=12,
            color=BACKGROUND,
            anchor="middle",
            is_bold=True,
        )
        svg.text((MARGIN + 32, y + 18), step.label, size=14, color=TEXT, width=420, is_bold=True)
        amount = f"{format_number(step.count)} ({format_percent(share)})"
        svg.text((WIDTH - MARGIN, y + 18), amount, size=14, color=TEXT, anchor="end", is_bold=True)
        svg.rect(MARGIN, y + 32, INNER_WIDTH, 24, TRACK, radius=4)
        svg.rect(MARGIN, y + 32, INNER_WIDTH * min(share, 1.0), 24, ACCENT, radius=4)
        if number > 1:
            kept = step.count / before if before else 0.0
            dropped = format_number(before - step.count)
            lost = f"{format_percent(kept)} of the step before, {dropped} dropped off"
            svg.text((MARGIN, y + 74), lost, size=12, color=MUTED, width=480)
            svg.text((WIDTH - MARGIN, y + 74), step.detail, size=12, color=MUTED, anchor="end")
        before = step.count
        y += 66 if number == 1 else 88
    return _draw_omitted(svg, y, body.omitted, "more steps")


@_draw_body.register
def _(body: TableChart, svg: Svg, top: float) -> float:
    widths = _choose_widths(body)
    y = _draw_columns(body, svg, top, widths)
    for row in body.rows:
        x = MARGIN
        for number, (cell, width) in enumerate(zip(row, widths, strict=False)):
            _draw_cell(svg, cell, (x, y, width), is_first=number == 0)
            x += width
        y += 26
        svg.line((MARGIN, y), (MARGIN + sum(widths), y), GRID)
    return _draw_omitted(svg, y + 6, body.omitted, "more rows")


def _draw_columns(body: TableChart, svg: Svg, top: float, widths: Sequence[float]) -> float:
    x = MARGIN
    for number, (name, width) in enumerate(zip(body.columns, widths, strict=True)):
        is_first = number < 2 or not _is_shaded(body)
        svg.text(
            (x if is_first else x + width / 2, top + 16),
            name,
            size=11,
            color=MUTED,
            width=width - 6,
            anchor="start" if is_first else "middle",
            is_bold=True,
        )
        x += width
    svg.line((MARGIN, top + 26), (MARGIN + sum(widths), top + 26), GRID)
    return top + 26


def _draw_cell(svg: Svg, cell: Cell, area: tuple[float, float, float], *, is_first: bool) -> None:
    x, y, width = area
    if cell.share is None:
        svg.text((x, y + 17), cell.text, size=12, color=TEXT, width=width - 8, is_bold=is_first)
        return
    svg.rect(x + 1, y + 2, width - 2, 23, mix_accent(cell.share), radius=3)
    svg.text(
        (x + width / 2, y + 17),
        cell.text,
        size=11,
        color=BACKGROUND if cell.share > 0.55 else TEXT,
        width=width - 4,
        anchor="middle",
    )


def _is_shaded(body: TableChart) -> bool:
    return any(cell.share is not None for row in body.rows for cell in row)


def _choose_widths(body: TableChart) -> list[float]:
    """Give the first columns of a shaded table the width that they need, and the others the rest
    in equal parts."""
    fixed = 2 if _is_shaded(body) else 0
    wanted = []
    for number in range(fixed):
        texts = [body.columns[number], *(row[number].text for row in body.rows)]
        wanted.append(min(max(measure(fit_text(text, 12, 180), 12) for text in texts) + 14, 194))
    rest = len(body.columns) - fixed
    share = (INNER_WIDTH - sum(wanted)) / rest if rest else 0
    return [*wanted, *[share] * rest]


def _draw_omitted(svg: Svg, y: float, omitted: int, what: str = "more") -> float:
    if omitted:
        svg.text((MARGIN, y + 16), f"and {omitted:,} {what}", size=12, color=MUTED)
        return y + 24
    return y
