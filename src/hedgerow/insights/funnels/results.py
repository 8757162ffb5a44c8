"""The results of a FunnelsQuery in PostHog's shape."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hedgerow.insights.date_range import DateRange
from hedgerow.insights.funnels.query import FunnelOrder, FunnelsQuery

MAX_AUTO_BINS = 60
# The width of the bin of a single conversion.
DEFAULT_BIN_S = 60

Result = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepsRow:
    """The steps of one value of the breakdown. Times are from the second step on."""

    value: Any
    counts: Sequence[int]
    means: Sequence[float]
    medians: Sequence[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bins:
    """Bins of conversion times, in seconds."""

    first: int
    width: int
    count: int


def build_steps(query: FunnelsQuery, rows: Sequence[StepsRow]) -> list[Any]:
    if query.breakdown is None:
        empty = StepsRow(value=None, counts=[0] * len(query.steps), means=(), medians=())
        return _build_funnel(query, rows[0] if rows else empty)
    return [_build_funnel(query, row) for row in rows]


def _build_funnel(query: FunnelsQuery, row: StepsRow) -> list[Result]:
    return [_build_step(query, row, number) for number in range(len(query.steps))]


def _build_step(query: FunnelsQuery, row: StepsRow, number: int) -> Result:
    series = query.steps[number]
    count = row.counts[number]
    # Times are those between required steps.
    has_time = number > 0 and count > 0 and number not in query.optional
    # Without an order, a step is a number of steps.
    has_name = query.order is not FunnelOrder.UNORDERED
    step: Result = {
        "action_id": series.entity_id if has_name else None,
        "name": series.name if has_name else f"Completed {number + 1} step{'s' if number else ''}",
        "custom_name": series.custom_name if has_name else None,
        "order": number,
        "people": [],
        "count": count,
        "type": series.entity_type,
        "average_conversion_time": row.means[number - 1] if has_time else None,
        "median_conversion_time": row.medians[number - 1] if has_time else None,
        "converted_people_url": None,
        "dropped_people_url": None,
    }
    if query.breakdown is not None:
        value = row.value if isinstance(row.value, list | int) else [row.value]
        step |= {"breakdown": value, "breakdown_value": value}
    return step


def choose_bins(query: FunnelsQuery, count: int, shortest: float, longest: float) -> Bins:
    """Choose bins that hold all conversions, as PostHog does."""
    first, last = math.floor(shortest), math.ceil(longest)
    number = query.bin_count or min(MAX_AUTO_BINS, max(1, math.ceil(math.cbrt(count) - 1e-9)))
    return Bins(
        first=first, width=math.ceil((last - first) / number) or DEFAULT_BIN_S, count=number
    )


def build_times(bins: Bins, counts: dict[int, int], average: float) -> Result:
    found = [
        [bins.first + number * bins.width, counts.get(number, 0)]
        for number in range(bins.count + 1)
    ]
    return {"bins": found, "average_conversion_time": round(average, 2)}


@dataclass(frozen=True, slots=True, kw_only=True)
class RatesRow:
    value: Any
    entered: dict[int, int]
    converted: dict[int, int]


def build_rates(query: FunnelsQuery, period: DateRange, rows: Sequence[RatesRow]) -> list[Result]:
    if query.breakdown is None:
        rows = rows or [RatesRow(value=None, entered={}, converted={})]
    return [_build_rate(query, period, row) for row in rows]


def _build_rate(query: FunnelsQuery, period: DateRange, row: RatesRow) -> Result:
    count = len(period.interval_starts)
    data = [_percent(row.converted.get(n, 0), row.entered.get(n, 0)) for n in range(count)]
    found = {"count": count, "data": data, "days": period.days, "labels": period.day_labels}
    if query.breakdown is not None:
        found["breakdown_value"] = row.value
    return found


def _percent(part: int, whole: int) -> float:
    return round(part / whole * 100, 2) if whole else 0
