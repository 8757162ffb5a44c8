"""Decides whether the results of a check are out of bounds. Pure."""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean, median
from typing import Any

from hedgerow.alerts.model import AlertCondition, AlertConfig, CheckVerdict, ConditionType
from hedgerow.charts.numbers import format_number, format_percent, is_drawable

# Factors that make both comparable to a standard deviation of normally distributed values.
MAD_FACTOR = 1.4826
MEAN_DEVIATION_FACTOR = 1.2533
# Fewer values say nothing about what is usual.
MIN_BASELINE = 5
MAX_BREACHES = 10
# In place of an infinite share, which JSON has no number for.
NO_SHARE = 1e9

Result = Mapping[str, Any]


def evaluate(
    results: Sequence[Result],
    condition: AlertCondition,
    config: AlertConfig,
    *,
    interval: str,
    is_total: bool,
) -> CheckVerdict:
    """`results` are those of one series, one for each value of a breakdown."""
    # No value of a breakdown occurred, so each of them is 0.
    found = list(results) or [{"data": [0] * 3, "aggregated_value": 0}]
    breaches: list[str] = []
    value: float | None = None
    for result in found:
        name = _name(result)
        if is_total:
            own = _to_float(result.get("aggregated_value"))
            breach = _describe_breach(f"The value{name}", own, condition)
        else:
            data = [_to_float(each) for each in result.get("data") or []]
            own, breach = _check_series(data, condition, config, (name, interval))
        if breach:
            value = own if not breaches else value
            breaches.append(breach)
        elif value is None and len(found) == 1:
            value = own
    return CheckVerdict(value=value, breaches=breaches[:MAX_BREACHES])


def _check_series(
    data: Sequence[float], condition: AlertCondition, config: AlertConfig, names: tuple[str, str]
) -> tuple[float, str]:
    """Return the value that counts and what is wrong with it. The last value is of the interval
    that is not over; it counts only if it is already too large."""
    name, interval = names
    if condition.type is ConditionType.ANOMALY:
        return _check_anomaly(data, condition, config, names)
    if config.checks_ongoing and condition.upper is not None:
        value = _measure(data, condition)
        about = f"{_what(condition)}{name} in this {interval}"
        if value > condition.upper:
            return value, _describe_breach(about, value, condition)
    value = _measure(data[:-1], condition)
    about = f"{_what(condition)}{name} in the last {interval}"
    return value, _describe_breach(about, value, condition)


def _measure(data: Sequence[float], condition: AlertCondition) -> float:
    """Return the last value, or its change from the one before."""
    last = data[-1] if data else 0.0
    if condition.type is ConditionType.ABSOLUTE:
        return last
    before = data[-2] if len(data) > 1 else 0.0
    change = last - before if condition.type is ConditionType.INCREASE else before - last
    if not condition.is_percentage or not change:
        return change
    # From nothing to something is more than any share.
    return change / abs(before) if before else math.copysign(NO_SHARE, change)


def _check_anomaly(
    data: Sequence[float], condition: AlertCondition, config: AlertConfig, names: tuple[str, str]
) -> tuple[float, str]:
    name, interval = names
    if config.checks_ongoing and data:
        low, high = find_usual_range(data[:-1], condition)
        if data[-1] > high:
            about = f"The value{name} in this {interval}"
            return data[-1], _describe_anomaly(about, data[-1], (low, high))
    complete = data[:-1]
    last = complete[-1] if complete else 0.0
    low, high = find_usual_range(complete[:-1], condition)
    if low <= last <= high:
        return last, ""
    return last, _describe_anomaly(f"The value{name} in the last {interval}", last, (low, high))


def find_usual_range(values: Sequence[float], condition: AlertCondition) -> tuple[float, float]:
    """Return the bounds of usual values: the median of the last `window` values, plus and minus
    `sensitivity` times their spread. Values before the first that is not 0 do not count; if fewer
    than MIN_BASELINE are left, everything is usual."""
    first = next((number for number, value in enumerate(values) if value), len(values))
    baseline = values[first:][-condition.window :]
    if len(baseline) < MIN_BASELINE:
        return float("-inf"), float("inf")
    center = median(baseline)
    deviations = [abs(value - center) for value in baseline]
    spread = MAD_FACTOR * median(deviations) or MEAN_DEVIATION_FACTOR * fmean(deviations)
    allowed = condition.sensitivity * spread
    return center - allowed, center + allowed


def _describe_anomaly(about: str, value: float, usual: tuple[float, float]) -> str:
    low, high = (format_number(bound) for bound in usual)
    return f"{about} is {format_number(value)}, outside of the usual range from {low} to {high}"


def _describe_breach(about: str, value: float, condition: AlertCondition) -> str:
    shown = _format(value, condition)
    if condition.lower is not None and value < condition.lower:
        return f"{about} is {shown}, below the lower bound {_format(condition.lower, condition)}"
    if condition.upper is not None and value > condition.upper:
        return f"{about} is {shown}, above the upper bound {_format(condition.upper, condition)}"
    return ""


def _what(condition: AlertCondition) -> str:
    match condition.type:
        case ConditionType.INCREASE:
            return "The increase"
        case ConditionType.DECREASE:
            return "The decrease"
    return "The value"


def _format(value: float, condition: AlertCondition) -> str:
    if condition.is_percentage:
        return "infinite" if abs(value) >= NO_SHARE else format_percent(value)
    return format_number(value)


def _name(result: Result) -> str:
    label = str(result.get("label") or "")[:100]
    return f" of {label}" if label else ""


def _to_float(value: Any) -> float:
    return float(value) if is_drawable(value) else 0.0
