"""The results of a TrendsQuery in PostHog's shape."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from hedgerow.insights.breakdowns import ALL_USERS, NULL_LABEL, OTHER_LABEL
from hedgerow.insights.date_range import DateRange
from hedgerow.insights.trends.query import NamedFormula, PlannedSeries, TrendsQuery
from hedgerow.lib.clock import format_iso

Result = dict[str, Any]
Number = int | float


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesRow:
    """The amounts of one value of the breakdown, by number of interval."""

    value: Any
    amounts: Mapping[int, Number]


def build_results(
    query: TrendsQuery, answered: Sequence[tuple[PlannedSeries, Sequence[SeriesRow]]]
) -> list[Result]:
    groups = [[_build_result(query, planned, row) for row in rows] for planned, rows in answered]
    if not query.formulas:
        return [each for group in groups for each in group]
    results: list[Result] = []
    for order, formula in enumerate(query.formulas):
        for is_previous in (False, True) if query.is_compared else (False,):
            chosen = [
                group
                for (planned, _), group in zip(answered, groups, strict=True)
                if planned.is_previous is is_previous
            ]
            results += [each | {"order": order} for each in _apply_formula(query, formula, chosen)]
    return results


def _build_result(query: TrendsQuery, planned: PlannedSeries, row: SeriesRow) -> Result:
    period = planned.query.period
    result: Result = _describe_series(planned, period)
    result["filter"] = _describe_filter(query, period)
    if query.is_total:
        result |= {"data": [], "days": [], "labels": [], "count": 0}
        result["aggregated_value"] = row.amounts.get(0, 0)
    else:
        data = _list_amounts(query, row, len(period.interval_starts))
        total = (data[-1] if data else 0) if query.is_cumulative else sum(data)
        result |= {
            "data": data,
            "days": period.days,
            "labels": period.labels,
            "count": float(total),
        }
    if query.is_compared:
        result["compare"] = True
        result["compare_label"] = "previous" if planned.is_previous else "current"
    if query.breakdown is not None:
        _add_breakdown(query, planned, row, result)
    return result


def _list_amounts(query: TrendsQuery, row: SeriesRow, count: int) -> list[Number]:
    data: list[Number] = [row.amounts.get(number, 0) for number in range(count)]
    if query.is_cumulative:
        data = list(accumulate(data))
    if query.smoothing > 1:
        data = _smooth(data, query.smoothing)
    return data


def _smooth(data: Sequence[Number], width: int) -> list[Number]:
    """Average each amount with those before it, rounded down as in PostHog."""
    parts = (data[max(0, end - width) : end] for end in range(1, len(data) + 1))
    return [sum(part) // len(part) for part in parts]


def _describe_series(planned: PlannedSeries, period: DateRange) -> Result:
    series = planned.query.series
    return {
        "label": series.label,
        "action": {
            "id": series.entity_id,
            "type": series.entity_type,
            "order": planned.order,
            "name": series.name,
            "custom_name": series.custom_name,
            "math": series.math,
            "math_property": series.math_property,
            "math_hogql": series.math_hogql,
            "math_group_type_index": series.math_group_type_index,
            "properties": {},
            "days": period.days,
        },
        "order": planned.order,
    }


def _describe_filter(query: TrendsQuery, period: DateRange) -> Result:
    found = {
        "insight": "TRENDS",
        "date_from": format_iso(period.start),
        "date_to": format_iso(period.end),
        "entity_type": "events",
        "interval": query.interval,
        "display": query.display,
        "properties": query.sent.get("properties"),
        "filter_test_accounts": query.sent.get("filterTestAccounts"),
        **(query.sent.get("breakdownFilter") or {}),
    }
    return {name: value for name, value in found.items() if value is not None}


def _add_breakdown(
    query: TrendsQuery, planned: PlannedSeries, row: SeriesRow, result: Result
) -> None:
    value, label = row.value, row.value
    if planned.cohort_name is not None:
        value = ALL_USERS if planned.cohort is None else planned.cohort
        label = planned.cohort_name
    elif isinstance(value, list):
        label = "::".join(value)
    result["breakdown_value"] = value
    result["label"] = f"{result['label']} - {label}" if len(query.series) > 1 else label


def _apply_formula(
    query: TrendsQuery, formula: NamedFormula, groups: Sequence[Sequence[Result]]
) -> list[Result]:
    """Apply a formula to the series of each value of the breakdown. A series without a value counts
    as 0."""
    series_count = len(query.series)
    by_value: dict[Any, list[Result | None]] = {}
    for number, group in enumerate(groups):
        for each in group:
            value = each.get("breakdown_value")
            key = tuple(value) if isinstance(value, list) else value
            by_value.setdefault(key, [None] * series_count)[number % series_count] = each
    results = [_compute(query, formula, each) for each in by_value.values()]
    if query.breakdown is not None and not query.breakdown.cohorts:
        results.sort(key=lambda each: (_rank(each["breakdown_value"]), -_total(query, each)))
    return results


def _compute(query: TrendsQuery, formula: NamedFormula, series: Sequence[Result | None]) -> Result:
    base = next(each for each in series if each is not None)
    result = {**base, "label": formula.name or f"Formula ({formula.text})", "action": None}
    if query.is_total:
        values = [each["aggregated_value"] if each else 0 for each in series]
        return result | {"aggregated_value": float(formula.apply(values)), "data": None}
    rows = [each["data"] if each else [0] * len(base["data"]) for each in series]
    data = [formula.apply(values) for values in zip(*rows, strict=True)]
    return result | {"data": data, "count": float(sum(data))}


def _total(query: TrendsQuery, result: Result) -> float:
    return float(result["aggregated_value"] if query.is_total else result["count"])


def _rank(value: Any) -> int:
    """Missing values and Other come last."""
    first = value[0] if isinstance(value, list) else value
    return {NULL_LABEL: 1, OTHER_LABEL: 2}.get(first, 0)


def order_rows(rows: Sequence[SeriesRow]) -> list[SeriesRow]:
    return sorted(rows, key=lambda row: _rank(row.value))
