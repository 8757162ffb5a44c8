"""Turns the results of a query, in PostHog's shape, into a chart."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from hedgerow.charts.model import (
    MAX_BARS,
    MAX_COLUMNS,
    MAX_POINTS,
    MAX_ROWS,
    MAX_SERIES,
    MAX_STEPS,
    Bar,
    BarChart,
    Body,
    Cell,
    DrawnSeries,
    FunnelChart,
    FunnelStep,
    MessageChart,
    NumberChart,
    Picture,
    TableChart,
    TimeChart,
)
from hedgerow.charts.numbers import (
    format_duration,
    format_number,
    format_percent,
    is_drawable,
)
from hedgerow.lib import jsonio

NO_DATA = "No data in this period"
# Displays of a TrendsQuery that are one number for each series.
_BAR_DISPLAYS = ("ActionsBarValue", "ActionsPie", "ActionsTable", "WorldMap", "CalendarHeatmap")
_TOTAL_DISPLAYS = (*_BAR_DISPLAYS, "BoldNumber")
_STACKED_DISPLAYS = ("ActionsBar", "ActionsStackedBar", "ActionsUnstackedBar")
_MOMENT_FORMATS = {"hour": "%-d %b %H:%M", "minute": "%-d %b %H:%M", "month": "%b %Y"}
# Queries whose kind says only how to show another one.
_WRAPPERS = ("InsightVizNode", "DataVisualizationNode", "DataTableNode")

Query = Mapping[str, Any]


def unwrap_query(query: Query) -> Query:
    """Return the query that is computed, without the node that says how to show it."""
    for _ in _WRAPPERS:
        source = query.get("source")
        if query.get("kind") not in _WRAPPERS or not isinstance(source, Mapping):
            break
        query = source
    return query


def build_chart(
    title: str, query: Query, response: Mapping[str, Any], timezone: str, now: datetime
) -> Picture:
    """`response` has the fields of the query endpoint: results, columns, resolved_date_range."""
    query, zone = unwrap_query(query), ZoneInfo(timezone)
    computed = now.astimezone(zone)
    return Picture(
        title=title or "Untitled insight",
        subtitle=_describe_period(query, response.get("resolved_date_range"), zone),
        footer=f"Computed {computed:%-d %b %Y, %H:%M} ({timezone})",
        body=_build_body(query, response),
    )


def build_error_chart(title: str, reason: str) -> Picture:
    """A chart that says why there is none."""
    body = MessageChart(text=reason)
    return Picture(title=title or "Untitled insight", subtitle="", footer="", body=body)


def _describe_period(query: Query, period: Any, zone: ZoneInfo) -> str:
    parts = []
    if isinstance(period, Mapping):
        days = [_parse_moment(period.get(name)) for name in ("date_from", "date_to")]
        texts = [f"{day.astimezone(zone):%-d %b %Y}" for day in days if day is not None]
        parts.append(" – ".join(dict.fromkeys(texts)))
    display = (query.get("trendsFilter") or {}).get("display")
    is_series = query.get("kind") == "TrendsQuery" and display not in _TOTAL_DISPLAYS
    if is_series and isinstance(interval := query.get("interval", "day"), str):
        parts.append(f"by {interval}")
    return " · ".join(part for part in parts if part)


def _parse_moment(text: Any) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None


def _build_body(query: Query, response: Mapping[str, Any]) -> Body:
    results = response.get("results")
    build = _BUILDERS.get(str(query.get("kind")))
    if build is None:
        return _build_table(response)
    return build(query, results) if results else MessageChart(text=NO_DATA)


def _build_trends(query: Query, results: Sequence[Mapping[str, Any]]) -> Body:
    options = query.get("trendsFilter") or {}
    display = options.get("display")
    if display == "BoldNumber":
        return _build_number(results)
    if display in _BAR_DISPLAYS:
        return _build_bars(
            [
                Bar(label=_label(each), value=_number(each.get("aggregated_value")))
                for each in results
                if each.get("compare_label") != "previous"
            ]
        )
    shown = _choose_series(results)
    moments, series = _reduce_points(_format_moments(query, results[0]), shown)
    current = sum(each.get("compare_label") != "previous" for each in results)
    return TimeChart(
        moments=moments,
        series=series,
        is_bars=display in _STACKED_DISPLAYS,
        unit="%" if str(options.get("aggregationAxisFormat")) == "percentage" else "",
        omitted=current - sum(not each.is_previous for each in series),
    )


def _choose_series(results: Sequence[Mapping[str, Any]]) -> list[DrawnSeries]:
    """Take the first series, each with the one of the period before, if there is one."""
    numbers: dict[tuple[str, str], int] = {}
    chosen: list[DrawnSeries] = []
    for each in results:
        is_previous = each.get("compare_label") == "previous"
        key = (_label(each), jsonio.encode(each.get("breakdown_value")).decode())
        number = numbers.setdefault(key, len(numbers))
        if number < MAX_SERIES:
            chosen.append(
                DrawnSeries(
                    label=f"{_label(each)} (previous)" if is_previous else _label(each),
                    values=[_number(value) for value in each.get("data") or []],
                    number=number,
                    is_previous=is_previous,
                )
            )
    return chosen


def _format_moments(query: Query, result: Mapping[str, Any]) -> list[str]:
    """Format the beginnings of the intervals, which are local times of the project."""
    pattern = _MOMENT_FORMATS.get(str(query.get("interval")), "%-d %b")
    found = []
    for text in result.get("days") or []:
        moment = _parse_moment(text)
        found.append(str(text) if moment is None else moment.strftime(pattern))
    return found


def _reduce_points(
    moments: list[str], series: list[DrawnSeries]
) -> tuple[list[str], list[DrawnSeries]]:
    """Keep the largest of several neighbors, if there are more points than pixels."""
    step = -(-len(moments) // MAX_POINTS) or 1
    if step == 1:
        return moments, series
    return moments[::step], [
        DrawnSeries(
            label=each.label,
            values=[max(each.values[at : at + step]) for at in range(0, len(each.values), step)],
            number=each.number,
            is_previous=each.is_previous,
        )
        for each in series
    ]


def _build_number(results: Sequence[Mapping[str, Any]]) -> Body:
    current, *others = [_number(each.get("aggregated_value")) for each in results]
    compared = next((each for each in results if each.get("compare_label") == "previous"), None)
    if compared is None or not others:
        return NumberChart(value=current)
    before = _number(compared.get("aggregated_value"))
    difference = current - before
    if before:
        share = difference / abs(before)
        text = (
            f"{'+' if share >= 0 else '−'}{format_percent(abs(share))} from {format_number(before)}"
        )
    else:
        text = f"from {format_number(before)}"
    return NumberChart(value=current, change=text, is_increase=difference >= 0)


def _build_bars(bars: Sequence[Bar]) -> Body:
    ordered = sorted(bars, key=lambda bar: -bar.value)
    return BarChart(bars=ordered[:MAX_BARS], omitted=max(0, len(ordered) - MAX_BARS))


def _build_funnel(query: Query, results: Any) -> Body:
    display = (query.get("funnelsFilter") or {}).get("funnelVizType")
    if display == "trends":
        shown = _choose_series([{"label": "Conversion", **each} for each in results])
        moments, series = _reduce_points(_format_moments(query, results[0]), shown)
        return TimeChart(
            moments=moments, series=series, unit="%", omitted=max(0, len(results) - len(shown))
        )
    if display == "time_to_convert":
        bins = results.get("bins") or []
        return _keep_order(
            [Bar(label=f"from {format_duration(at)}", value=_number(count)) for at, count in bins]
        )
    if isinstance(results[0], list):  # one funnel for each value of a breakdown
        return _build_funnel_table(results)
    steps = [_build_step(step) for step in results]
    return FunnelChart(steps=steps[:MAX_STEPS], omitted=max(0, len(steps) - MAX_STEPS))


def _keep_order(bars: Sequence[Bar]) -> Body:
    return BarChart(bars=bars[:MAX_BARS], omitted=max(0, len(bars) - MAX_BARS))


def _build_step(step: Mapping[str, Any]) -> FunnelStep:
    seconds = step.get("median_conversion_time")
    duration = format_duration(_number(seconds))
    return FunnelStep(
        label=_label(step),
        count=int(_number(step.get("count"))),
        detail=f"median time {duration}" if is_drawable(seconds) else "",
    )


def _build_funnel_table(funnels: Sequence[Sequence[Mapping[str, Any]]]) -> Body:
    steps = funnels[0][: MAX_COLUMNS - 1]
    rows = []
    for funnel in funnels[:MAX_ROWS]:
        first = _number(funnel[0].get("count")) or 1
        cells = [Cell(text=_format_value(funnel[0].get("breakdown_value")))]
        for step in funnel[: len(steps)]:
            count = _number(step.get("count"))
            share = count / first
            text = f"{format_number(count)} ({format_percent(share)})"
            cells.append(Cell(text=text, share=share * 0.8))
        rows.append(cells)
    columns = ["", *(f"{number}. {_label(step)}" for number, step in enumerate(steps, start=1))]
    return TableChart(columns=columns, rows=rows, omitted=max(0, len(funnels) - MAX_ROWS))


def list_past_values(
    results: Sequence[Mapping[str, Any]],
) -> list[list[Mapping[str, Any]]]:
    """Return the values of each row of a retention without those of intervals after the range,
    which are always 0."""
    bases: Counter[Any] = Counter()
    sizes = Counter(_label_value(row) for row in results)
    found = []
    for row in results:
        value = _label_value(row)
        found.append(list(row["values"][: sizes[value] - bases[value]]))
        bases[value] += 1
    return found


def _label_value(row: Mapping[str, Any]) -> str:
    return str(row.get("breakdown_value"))


def _build_retention(query: Query, results: Sequence[Mapping[str, Any]]) -> Body:
    shown = MAX_COLUMNS - 2
    pattern = _MOMENT_FORMATS.get(
        str((query.get("retentionFilter") or {}).get("period", "")).lower(), "%-d %b %Y"
    )
    has_breakdown = any(row.get("breakdown_value") is not None for row in results)
    past = list_past_values(results)
    rows = []
    for row, values in zip(results[:MAX_ROWS], past[:MAX_ROWS], strict=True):
        moment = _parse_moment(row.get("date"))
        name = moment.strftime(pattern) if moment else str(row.get("label"))
        if has_breakdown:
            name = f"{_format_value(row.get('breakdown_value'))} · {name}"
        counts = [_number(value.get("count")) for value in values]
        size = counts[0] if counts else 0.0
        cells = [Cell(text=name), Cell(text=format_number(size))]
        for count in counts[:shown]:
            share = count / size if size else 0.0
            cells.append(Cell(text=format_percent(share) if size else "–", share=share))
        rows.append(cells)
    labels = [value["label"] for value in max(past, key=len)]
    return TableChart(
        columns=["Cohort", "Size", *labels[:shown]],
        rows=rows,
        omitted=max(0, len(results) - MAX_ROWS),
    )


def _build_paths(_: Query, results: Sequence[Mapping[str, Any]]) -> Body:
    return _build_bars(
        [
            Bar(
                label=f"{_strip_step(each.get('source'))} › {_strip_step(each.get('target'))}",
                value=_number(each.get("value")),
            )
            for each in results
        ]
    )


def _strip_step(name: Any) -> str:
    """Remove the number of the step, as in `1_/home`."""
    number, separator, rest = str(name).partition("_")
    return rest if separator and number.isdecimal() else str(name)


def _build_table(response: Mapping[str, Any]) -> Body:
    rows, columns = response.get("results"), list(response.get("columns") or [])
    if not isinstance(rows, list) or not rows or not columns:
        return MessageChart(text=NO_DATA)
    shown = columns[:MAX_COLUMNS]
    if len(rows) == 1 and len(columns) == 1 and is_drawable(rows[0][0]):
        return NumberChart(value=_number(rows[0][0]))
    return TableChart(
        columns=[str(column) for column in shown],
        rows=[
            [Cell(text=_format_value(value)) for value in list(row)[: len(shown)]]
            for row in rows[:MAX_ROWS]
            if isinstance(row, Sequence)
        ],
        omitted=max(0, len(rows) - MAX_ROWS),
    )


def _label(result: Mapping[str, Any]) -> str:
    for name in ("custom_name", "label", "name"):
        if result.get(name) not in (None, ""):
            return _format_value(result[name])
    value = result.get("breakdown_value")
    return "All events" if value is None else _format_value(value)


def _format_value(value: Any) -> str:
    if isinstance(value, str):
        return value
    if is_drawable(value):
        return format_number(value)
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return ", ".join(each or "(no value)" for each in value)
    return "" if value is None else jsonio.encode(value).decode()


def _number(value: Any) -> float:
    return float(value) if is_drawable(value) else 0.0


_BUILDERS: Mapping[str, Callable[[Query, Any], Body]] = {
    "TrendsQuery": _build_trends,
    "FunnelsQuery": _build_funnel,
    "RetentionQuery": _build_retention,
    "PathsQuery": _build_paths,
}
