"""Steps and metrics of a plan, from JSON and to JSON. Raises Invalid with the exact path, such as
`metrics[0].event`. Pure.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from enum import StrEnum
from typing import Any, TypeVar

from hedgerow.errors import Invalid
from hedgerow.filters.validate import raise_invalid
from hedgerow.lib.text import explain_unstorable, truncate
from hedgerow.projects.validation import check_storable
from hedgerow.rollouts.model import (
    DEFAULT_MIN_PERSONS,
    MAX_DURATION_S,
    MAX_METRICS,
    MAX_STEPS,
    NAME_MAX_CHARS,
    Direction,
    Guardrail,
    MetricType,
    Step,
)

E = TypeVar("E", bound=StrEnum)

EXPRESSION_MAX_CHARS = 2_000
MAX_FILTERS = 20
LEAST_MIN_PERSONS, MOST_MIN_PERSONS = 50, 10_000_000
STEP_FIELDS = ("rollout_percentage", "duration_seconds")
_EVENT = ("event", "properties")
# The fields of each type besides those of all metrics.
TYPE_FIELDS: Mapping[MetricType, Sequence[str]] = {
    MetricType.CONVERSION: _EVENT,
    MetricType.COUNT: _EVENT,
    MetricType.SUM: (*_EVENT, "property"),
    MetricType.MEAN: (*_EVENT, "property"),
    MetricType.RATIO: (*_EVENT, "denominator_event", "denominator_properties"),
    MetricType.HOGQL: (*_EVENT, "expression"),
}
COMMON_FIELDS = ("name", "type", "harm", "min_persons")
_OPTIONAL = ("properties", "denominator_properties")


def parse_steps(sent: Sequence[Any]) -> tuple[Step, ...]:
    if not 1 <= len(sent) <= MAX_STEPS:
        raise Invalid(f"Expected 1 to {MAX_STEPS} steps.", attr="steps")
    steps = tuple(_parse_step(each, f"steps[{number}]") for number, each in enumerate(sent))
    percentages = [step.percentage for step in steps]
    if sorted(set(percentages)) != percentages:
        detail = "Expected a higher percentage in each step than in the one before."
        raise Invalid(detail, attr="steps")
    return steps


def _parse_step(sent: Any, attr: str) -> Step:
    step = _check_object(sent, STEP_FIELDS, attr)
    percentage: Any = step.get("rollout_percentage")
    duration: Any = step.get("duration_seconds")
    if type(percentage) not in (int, float) or not 0 < percentage <= 100:
        detail = "Expected a percentage above 0 and up to 100."
        raise Invalid(detail, attr=f"{attr}.rollout_percentage")
    if type(duration) is not int or not 1 <= duration <= MAX_DURATION_S:
        detail = f"Expected a whole number of seconds from 1 to {MAX_DURATION_S}."
        raise Invalid(detail, attr=f"{attr}.duration_seconds")
    return Step(percentage=float(percentage), duration=timedelta(seconds=duration))


def render_step(step: Step) -> dict[str, Any]:
    return {
        "rollout_percentage": step.percentage,
        "duration_seconds": int(step.duration.total_seconds()),
    }


def parse_metrics(sent: Sequence[Any]) -> tuple[Guardrail, ...]:
    if not 1 <= len(sent) <= MAX_METRICS:
        raise Invalid(f"Expected 1 to {MAX_METRICS} metrics.", attr="metrics")
    found = tuple(_parse_metric(each, f"metrics[{number}]") for number, each in enumerate(sent))
    names = [metric.name for metric in found]
    if len(set(names)) < len(names):
        raise Invalid("Expected another name for each metric.", attr="metrics")
    return found


def _parse_metric(sent: Any, attr: str) -> Guardrail:
    if not isinstance(sent, dict):
        kind = type(sent).__name__
        raise_invalid(attr, f'Expected a dictionary of items but got type "{kind}".', "not_a_dict")
    kind = _parse_choice(MetricType, sent.get("type"), f"{attr}.type")
    wanted = TYPE_FIELDS[kind]
    metric = _check_object(sent, (*COMMON_FIELDS, *wanted), attr)
    check_storable(metric, attr)
    values: dict[str, Any] = {}
    for name in wanted:
        # Only an expression can be about all events.
        is_optional = name in _OPTIONAL or (name == "event" and kind is MetricType.HOGQL)
        values[name] = (
            _parse_filters(metric.get(name), f"{attr}.{name}")
            if name in _OPTIONAL
            else _parse_text(metric.get(name), f"{attr}.{name}", is_optional=is_optional)
        )
    return Guardrail(
        name=_parse_text(metric.get("name"), f"{attr}.name", is_optional=True)
        or _build_name(kind, values),
        type=kind,
        harm=_parse_choice(Direction, metric.get("harm"), f"{attr}.harm"),
        min_persons=_parse_min_persons(metric.get("min_persons"), f"{attr}.min_persons"),
        **values,
    )


def render_metric(metric: Guardrail) -> dict[str, Any]:
    return {
        "name": metric.name,
        "type": metric.type.value,
        **{
            name: list(value) if name in _OPTIONAL else value
            for name in TYPE_FIELDS[metric.type]
            for value in (getattr(metric, name),)
        },
        "harm": metric.harm.value,
        "min_persons": metric.min_persons,
    }


def _build_name(kind: MetricType, values: Mapping[str, Any]) -> str:
    match kind:
        case MetricType.CONVERSION:
            name = f"persons with {values['event']}"
        case MetricType.COUNT:
            name = f"{values['event']} per person"
        case MetricType.RATIO:
            name = f"{values['event']} per {values['denominator_event']}"
        case MetricType.HOGQL:
            name = values["expression"]
        case _:
            name = f"{kind.value} of {values['property']}"
    return name[:NAME_MAX_CHARS]


def _parse_choice(choices: type[E], value: Any, attr: str) -> E:
    if value is None:
        raise_invalid(attr, "This field is required.", "required")
    if not isinstance(value, str) or value not in choices._value2member_map_:
        detail = f'"{truncate(value)}" is not a valid choice. Expected one of: '
        raise_invalid(attr, f"{detail}{', '.join(choices)}.", "invalid_choice")
    return choices(value)


def _parse_text(value: Any, attr: str, *, is_optional: bool) -> str:
    if is_optional and value in (None, ""):
        return ""
    if value in (None, ""):
        raise_invalid(attr, "This field is required.", "required")
    longest = EXPRESSION_MAX_CHARS if attr.endswith(".expression") else NAME_MAX_CHARS
    if not isinstance(value, str) or explain_unstorable(value):
        raise_invalid(attr, "Not a valid string.")
    if len(value) > longest:
        raise_invalid(attr, f"Expected at most {longest} characters.", "max_length")
    return value


def _parse_filters(value: Any, attr: str) -> tuple[Any, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or len(value) > MAX_FILTERS:
        raise_invalid(attr, f"Expected a list of at most {MAX_FILTERS} filters.", "not_a_list")
    return tuple(value)


def _parse_min_persons(value: Any, attr: str) -> int:
    if value is None:
        return DEFAULT_MIN_PERSONS
    if type(value) is not int or not LEAST_MIN_PERSONS <= value <= MOST_MIN_PERSONS:
        detail = f"Expected a whole number from {LEAST_MIN_PERSONS} to {MOST_MIN_PERSONS}."
        raise_invalid(attr, detail)
    return value


def _check_object(sent: Any, names: Sequence[str], attr: str) -> Mapping[str, Any]:
    if not isinstance(sent, dict):
        kind = type(sent).__name__
        raise_invalid(attr, f'Expected a dictionary of items but got type "{kind}".', "not_a_dict")
    unknown = sorted(str(name) for name in set(sent) - set(names))
    if unknown:
        detail = f"Unknown field. Expected one of: {', '.join(names)}."
        raise_invalid(f"{attr}.{truncate(unknown[0])}", detail, "unknown_field")
    return sent
