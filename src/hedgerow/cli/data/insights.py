"""`hedgerow insights`: trends, funnels, retention and paths from a file."""

from collections.abc import Mapping, Sequence
from typing import Any

from hedgerow.charts.from_results import list_past_values
from hedgerow.cli.charts import Chart, ChartOption, ChartSeries, draw_chart, format_number
from hedgerow.cli.config.as_code import FileArgument, read_document
from hedgerow.cli.options import JsonOption, KeyOption, ProjectOption, ServerOption
from hedgerow.cli.output import print_json, print_table
from hedgerow.cli.service_client import connect_service
from hedgerow.errors import OperatorError


def run_insight(
    file: FileArgument,
    chart: ChartOption = None,
    as_json: JsonOption = False,
    project: ProjectOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
) -> None:
    """Run a trend, funnel, retention or path from a YAML file on the running service.

    The file holds the query as the API takes it: kind, series, dateRange and so on. Needs a
    personal API key with the scope query:read.

    Example: hedgerow insights run signups.yaml --chart line
    """
    query = _read_query(file)
    service = connect_service(server, key, project)
    result = service.request("POST", "query/", {"query": query, "refresh": "blocking"})
    results = result["results"]
    if as_json:
        print_json(results)
        return
    show = _VIEWS.get(query["kind"])
    if show is None:
        print_json(results)
    else:
        show(results, chart)


def _read_query(file: Any) -> Mapping[str, Any]:
    document = read_document(file)
    query = document.get("query", document) if isinstance(document, dict) else None
    if not isinstance(query, dict) or not isinstance(query.get("kind"), str):
        raise OperatorError(
            f"{file} holds no query. Expected `kind: TrendsQuery`, `series: ...` and so on."
        )
    return query


def _show_trends(results: Any, chart: Chart | None) -> None:
    names = [_name(each) for each in results]
    if results and results[0].get("aggregated_value") is not None:
        totals = [each["aggregated_value"] for each in results]
        _show(["series", "value"], names, [ChartSeries(name="value", values=totals)], chart)
        return
    days = results[0]["days"] if results else []
    series = [
        ChartSeries(name=name, values=each["data"])
        for name, each in zip(names, results, strict=True)
    ]
    _show(["day", *names], days, series, chart)


def _name(result: Mapping[str, Any]) -> str:
    label = str(result.get("label"))
    is_compared = result.get("compare_label")
    return f"{label} ({is_compared})" if is_compared else label


def _show_funnels(results: Any, chart: Chart | None) -> None:
    if isinstance(results, dict):
        bins = results["bins"]
        starts = [f"{start} s" for start, _ in bins]
        counts = [float(count) for _, count in bins]
        _show(["from", "people"], starts, [ChartSeries(name="people", values=counts)], chart)
        return
    if results and "data" in results[0]:
        series = [
            ChartSeries(name=_join(each.get("breakdown_value")), values=each["data"])
            for each in results
        ]
        _show(["day", *(each.name for each in series)], results[0]["days"], series, chart)
        return
    funnels = results if results and isinstance(results[0], list) else [results]
    for steps in funnels:
        if "breakdown_value" in steps[0]:
            print(_join(steps[0]["breakdown_value"]))
        _show_steps(steps, chart)


def _show_steps(steps: Sequence[Mapping[str, Any]], chart: Chart | None) -> None:
    names = [str(each["custom_name"] or each["name"]) for each in steps]
    counts = [each["count"] for each in steps]
    if chart is not None:
        draw_chart(Chart.BAR, names, [ChartSeries(name="people", values=counts)])
        return
    rows = [
        [
            name,
            f"{count:,}",
            f"{count / counts[0]:.1%}" if counts[0] else "",
            _format_seconds(step["average_conversion_time"]),
        ]
        for name, count, step in zip(names, counts, steps, strict=True)
    ]
    print_table(["step", "people", "of all", "average time"], rows)


def _show_retention(results: Any, chart: Chart | None) -> None:
    past = list_past_values(results)
    if chart is not None:
        values = past[0] if past else []
        labels = [each["label"] for each in values]
        counts = [each["count"] for each in values]
        draw_chart(chart, labels, [ChartSeries(name="people", values=counts)])
        return
    width = max(map(len, past), default=0)
    labels = [each["label"] for values in past[:1] for each in values]
    rows = []
    for row, values in zip(results, past, strict=True):
        counts = [f"{each['count']:,}" for each in values]
        value = row.get("breakdown_value")
        first = "" if value is None else _join(value) + " "
        rows.append([first + row["date"][:10], *counts, *[""] * (width - len(counts))])
    print_table(["from", *labels], rows)


def _show_paths(results: Any, chart: Chart | None) -> None:
    if chart is not None:
        labels = [f"{each['source']} > {each['target']}" for each in results]
        counts = [each["value"] for each in results]
        draw_chart(Chart.BAR, labels, [ChartSeries(name="times", values=counts)])
        return
    rows = [
        [
            each["source"],
            each["target"],
            f"{each['value']:,}",
            _format_seconds(each["average_conversion_time"] / 1000),
        ]
        for each in results
    ]
    print_table(["from", "to", "times", "average time"], rows, empty="No paths.")


def _show(
    columns: Sequence[str],
    labels: Sequence[str],
    series: Sequence[ChartSeries],
    chart: Chart | None,
) -> None:
    if chart is not None:
        draw_chart(chart, labels, series)
        return
    rows = [
        [label, *(format_number(each.values[number]) for each in series)]
        for number, label in enumerate(labels)
    ]
    print_table(columns, rows, empty="No results.")


def _join(value: Any) -> str:
    if value is None:
        return "rate"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _format_seconds(seconds: float | None) -> str:
    if seconds is None:
        return ""
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.1f} s"


_VIEWS = {
    "TrendsQuery": _show_trends,
    "FunnelsQuery": _show_funnels,
    "RetentionQuery": _show_retention,
    "PathsQuery": _show_paths,
}
