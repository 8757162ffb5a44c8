"""Reads the documents of an alert, in PostHog's format: condition, threshold, config."""

import math
from collections.abc import Mapping
from typing import Any

from hedgerow.alerts.model import AlertCondition, AlertConfig, ConditionType
from hedgerow.errors import Invalid
from hedgerow.lib.shape import Shape
from hedgerow.projects.validation import check_known_fields
from hedgerow.queries.fields import QueryFields

DEFAULT_WINDOW = 28
MIN_WINDOW = 5
MAX_WINDOW = 365
DEFAULT_SENSITIVITY = 3.0
MIN_SENSITIVITY, MAX_SENSITIVITY = 0.5, 20.0
MAX_SERIES_INDEX = 100

CONDITION = Shape("type", "window", "sensitivity")
# PostHog returns the other fields of a threshold, and clients send them back.
THRESHOLD = Shape(
    configuration=Shape("type", bounds=Shape("lower", "upper")),
    unused=("id", "name", "created_at"),
)
CONFIG = Shape("type", "series_index", "check_ongoing_interval")

Document = Mapping[str, Any]


def parse_condition(condition: Document, threshold: Document) -> AlertCondition:
    check_known_fields(condition, CONDITION, "condition")
    check_known_fields(threshold, THRESHOLD, "threshold")
    fields = QueryFields(condition, "condition")
    chosen = fields.choice("type", [each.value for each in ConditionType])
    if chosen is None:
        detail = f"This field is required. Expected one of: {', '.join(ConditionType)}."
        raise Invalid(detail, attr="condition__type", code="required")
    type = ConditionType(chosen)
    if type is ConditionType.ANOMALY:
        return _parse_anomaly(fields)
    for name in ("window", "sensitivity"):
        fields.refuse_value(name, "Only the condition `anomaly` has this field.")
    return _parse_bounds(type, threshold)


def _parse_anomaly(fields: QueryFields) -> AlertCondition:
    sensitivity = _read_number(fields, "sensitivity")
    if sensitivity is None:
        sensitivity = DEFAULT_SENSITIVITY
    if not MIN_SENSITIVITY <= sensitivity <= MAX_SENSITIVITY:
        detail = f"A number from {MIN_SENSITIVITY:g} to {MAX_SENSITIVITY:g} is required."
        raise Invalid(detail, attr=fields.attr("sensitivity"))
    return AlertCondition(
        type=ConditionType.ANOMALY,
        window=fields.number("window", MIN_WINDOW, MAX_WINDOW) or DEFAULT_WINDOW,
        sensitivity=sensitivity,
    )


def _parse_bounds(type: ConditionType, threshold: Document) -> AlertCondition:
    fields = QueryFields(
        QueryFields(threshold, "threshold").mapping("configuration"), "threshold__configuration"
    )
    kind = fields.choice("type", ("absolute", "percentage")) or "absolute"
    if type is ConditionType.ABSOLUTE and kind == "percentage":
        detail = "The condition `absolute_value` needs a threshold of type `absolute`."
        raise Invalid(detail, attr=fields.attr("type"))
    bounds = QueryFields(fields.mapping("bounds"), fields.attr("bounds"))
    lower, upper = _read_number(bounds, "lower"), _read_number(bounds, "upper")
    if lower is None and upper is None:
        detail = "Expected at least one bound: `lower`, `upper` or both."
        raise Invalid(detail, attr=fields.attr("bounds"), code="required")
    if lower is not None and upper is not None and lower > upper:
        detail = "The lower bound is above the upper bound."
        raise Invalid(detail, attr=fields.attr("bounds"))
    return AlertCondition(type=type, is_percentage=kind == "percentage", lower=lower, upper=upper)


def _read_number(fields: QueryFields, name: str) -> float | None:
    value = fields.raw(name)
    if value is None:
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    # A whole number beyond all floats raises OverflowError.
    if not is_number or not abs(value) < 1e300 or not math.isfinite(value):
        raise Invalid("A valid number is required.", attr=fields.attr(name))
    return float(value)


def parse_config(config: Document, condition: AlertCondition) -> AlertConfig:
    check_known_fields(config, CONFIG, "config")
    fields = QueryFields(config, "config")
    fields.choice("type", ("TrendsAlertConfig",))
    checks_ongoing = fields.boolean("check_ongoing_interval")
    # As in PostHog: the value of an interval that is not over is always lower.
    if checks_ongoing and condition.type is ConditionType.DECREASE:
        detail = "The interval that is not over cannot be checked for a decrease."
        raise Invalid(detail, attr="config__check_ongoing_interval")
    return AlertConfig(
        series_index=fields.number("series_index", 0, MAX_SERIES_INDEX) or 0,
        checks_ongoing=checks_ongoing,
    )


def render_condition(condition: AlertCondition) -> dict[str, Any]:
    if condition.type is ConditionType.ANOMALY:
        return {
            "type": condition.type.value,
            "window": condition.window,
            "sensitivity": condition.sensitivity,
        }
    return {"type": condition.type.value}


def render_threshold(condition: AlertCondition) -> dict[str, Any] | None:
    if condition.type is ConditionType.ANOMALY:
        return None
    bounds = {"lower": condition.lower, "upper": condition.upper}
    return {
        "configuration": {
            "type": "percentage" if condition.is_percentage else "absolute",
            "bounds": {name: value for name, value in bounds.items() if value is not None},
        }
    }


def render_config(config: AlertConfig) -> dict[str, Any]:
    return {
        "type": "TrendsAlertConfig",
        "series_index": config.series_index,
        "check_ongoing_interval": config.checks_ongoing,
    }
