"""The evidence about the metrics of a running plan: one query for the sums of both groups, and the
sequential test of each metric.

Treated are persons who got the feature since the step began, control those who did not, by the
value of the flag that their SDK reported. Both match the filters of the condition that is rolled
out and of no other. A person counts once the observation window after the first exposure is over,
with what happened in it, so that it never changes any more. Persons with both values are left out.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.events.filters.compiler import FilterCompiler
from hedgerow.events.query.context import QueryContext, compile_query
from hedgerow.experiments.sequential import GroupSums, SequentialTest, build_sequential_test
from hedgerow.flags.model import Flag
from hedgerow.flags.validate import condition_sets, super_groups, variant_keys
from hedgerow.hogql.ast import Expr, Select
from hedgerow.hogql.builders import all_of, any_of, call, constant, equals, field, negate
from hedgerow.hogql.errors import HogQLError
from hedgerow.hogql.parser.parse import parse_expr
from hedgerow.hogql.printer.statement import PrintedQuery
from hedgerow.hogql.templates import build_select
from hedgerow.rollouts.model import Direction, Guardrail, MetricType, RolloutPlan

CONTROL, TREATED = 1, 2
HARM, NO_HARM = "harm", "no_harm_found"
TOO_FEW_PERSONS, NO_DATA, TOO_LITTLE_DATA = "too_few_persons", "no_data", "too_little_data"
# With these, a plan that waits for data goes on waiting.
MISSING = (TOO_FEW_PERSONS, NO_DATA)

_EXPOSED_SQL = """
SELECT {unit} AS unit, min(timestamp) AS since, min({group}) AS least, max({group}) AS most
FROM events
WHERE event = '$feature_flag_called' AND timestamp >= {start} AND timestamp < {now}
    AND {group} > 0 AND {who}
GROUP BY unit
"""
_DONE_SQL = """
SELECT {unit} AS unit, timestamp AS at, %s
FROM events
WHERE timestamp >= {start} AND timestamp < {now} AND {filters}
"""
_SUMS_SQL = """
SELECT treatment, count() AS persons, %s
FROM (
    SELECT exposed.unit AS person, any(exposed.treatment) AS treatment, %s
    FROM {done} AS done
    RIGHT JOIN (
        SELECT unit, since, least AS treatment FROM {exposed} AS found
        WHERE least = most AND since < {ripe}
    ) AS exposed ON done.unit = exposed.unit
    GROUP BY exposed.unit
)
GROUP BY treatment
ORDER BY treatment
"""
_SUM_COLUMNS = (
    "sum(above_{0}), sum(below_{0}), sum(above_{0} * above_{0}), sum(below_{0} * below_{0}), "
    "sum(above_{0} * below_{0}), countIf(above_{0} != 0)"
)
_WIDTH = 6


def compile_evidence(
    plan: RolloutPlan, flag: Flag, start: datetime, context: QueryContext
) -> PrintedQuery:
    """Return the query for the sums of both groups. Raises Invalid if it cannot be built, for
    example because a cohort was deleted."""
    _check_expressions(plan.metrics)
    try:
        return compile_query(_build_query(plan, flag, start, context), context)
    except HogQLError as error:
        raise Invalid(error.detail, attr="metrics", code=error.code) from None


def _check_expressions(metrics: Sequence[Guardrail]) -> None:
    for number, metric in enumerate(metrics):
        try:
            parse_expr(metric.expression or "1")
        except HogQLError as error:
            attr = f"metrics[{number}].expression"
            raise Invalid(error.detail, attr=attr, code=error.code) from None


def _build_query(plan: RolloutPlan, flag: Flag, start: datetime, context: QueryContext) -> Select:
    now = context.time.now
    numbers = range(len(plan.metrics))
    amounts = [
        _build_amounts(metric, number, context) for number, metric in enumerate(plan.metrics)
    ]
    names = [f"{part}_{number}" for number in numbers for part in ("above", "below")]
    columns = ", ".join(f"{{{name}}} AS {name}" for name in names)
    moments = {"start": constant(start), "now": constant(now)}
    unit = field(_get_unit(flag))
    done = build_select(
        _DONE_SQL % columns,
        unit=unit,
        filters=any_of([each for metric in amounts for each in metric.filters]),
        **moments,
        **{f"above_{number}": amounts[number].above for number in numbers},
        **{f"below_{number}": amounts[number].below for number in numbers},
    )
    exposed = build_select(
        _EXPOSED_SQL,
        unit=unit,
        group=_build_group(flag),
        who=_build_audience(plan, flag, context),
        **moments,
    )
    values = ", ".join(_build_person_value(metric, n) for n, metric in enumerate(plan.metrics))
    sums = ", ".join(_SUM_COLUMNS.format(number) for number in numbers)
    ripe = constant(now - plan.window)
    text = _SUMS_SQL % (sums, values % {"window": int(plan.window.total_seconds())})
    return build_select(text, done=done, exposed=exposed, ripe=ripe)


def _get_unit(flag: Flag) -> str:
    index = flag.filters.get("aggregation_group_type_index")
    return "person_id" if index is None else f"$group_{index}"


def _build_group(flag: Flag) -> Expr:
    """1 for an exposure without the feature, 2 for one with it, 0 for others."""
    values = ["false", "true", *variant_keys(flag.filters)]
    value = call("ifNull", field("properties", "$feature_flag_response"), constant(""))
    number = call("indexOf", constant(values), value)
    return call("min2", number, constant(TREATED))


def _build_audience(plan: RolloutPlan, flag: Flag, context: QueryContext) -> Expr:
    try:
        return _build_who(plan, flag, context)
    except Invalid as error:
        detail = f"The persons of the flag cannot be found by a query: {error.attr}: {error.detail}"
        raise Invalid(detail, attr="flag", code="not_supported") from None


def _build_who(plan: RolloutPlan, flag: Flag, context: QueryContext) -> Expr:
    """The persons whom the plan rolls out to: they match its condition, and no other."""
    compiler = FilterCompiler(context.time, context.cohorts, parse_expr)
    parts: list[Expr] = [equals(field("properties", "$feature_flag"), flag.key)]
    unit = _get_unit(flag)
    if unit != "person_id":
        parts.append(call("notEmpty", field(unit)))
    for number, condition in enumerate(condition_sets(flag.filters)):
        place = f"filters.groups[{number}].properties"
        filters = _get_filters(condition)
        if number == plan.condition_index:
            parts += [compiler.compile(filters, place)] if filters else []
        elif filters:
            parts.append(negate(compiler.compile(filters, place)))
    for number, condition in enumerate(super_groups(flag.filters)):
        if filters := _get_filters(condition):
            place = f"filters.super_groups[{number}].properties"
            parts.append(negate(compiler.compile(filters, place)))
    return all_of(parts)


def _get_filters(condition: Mapping[str, Any]) -> list[Any]:
    filters = condition.get("properties")
    return filters if isinstance(filters, list) else []


def check_comparable(plan: RolloutPlan, flag: Flag) -> None:
    """Raise Invalid if persons without the feature look like those it is not for."""
    for number, condition in enumerate(condition_sets(flag.filters)):
        if number != plan.condition_index and not _get_filters(condition):
            raise Invalid(
                f"Condition {number} of the flag has no filters, so that it holds for the persons "
                "of this plan too. Remove it, or give it filters.",
                attr="condition_index",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Amounts:
    """What one event adds to the numerator and to the denominator, and which events do."""

    above: Expr
    below: Expr
    filters: Sequence[Expr]


def _build_amounts(metric: Guardrail, number: int, context: QueryContext) -> _Amounts:
    compiler = FilterCompiler(context.time, context.cohorts, parse_expr)

    def build_filter(event: str, properties: Sequence[Any], name: str) -> Expr:
        parts: list[Expr] = [equals(field("event"), event)] if event else []
        if properties:
            parts.append(compiler.compile(list(properties), f"metrics[{number}].{name}"))
        return all_of(parts)

    one, zero = constant(1), constant(0)
    matches = build_filter(metric.event, metric.properties, "properties")
    if metric.type in (MetricType.CONVERSION, MetricType.COUNT):
        return _Amounts(above=call("if", matches, one, zero), below=zero, filters=[matches])
    if metric.type is MetricType.RATIO:
        other = build_filter(
            metric.denominator_event, metric.denominator_properties, "denominator_properties"
        )
        return _Amounts(
            above=call("if", matches, one, zero),
            below=call("if", other, one, zero),
            filters=[matches, other],
        )
    is_hogql = metric.type is MetricType.HOGQL
    source = parse_expr(metric.expression) if is_hogql else field("properties", metric.property)
    amount = call("toFloat", source)
    is_number = all_of([matches, call("isNotNull", amount)])
    finite = call("ifNotFinite", call("ifNull", amount, zero), zero)
    return _Amounts(
        above=call("if", is_number, finite, zero),
        below=call("if", is_number, one, zero),
        filters=[matches],
    )


def _build_person_value(metric: Guardrail, number: int) -> str:
    """Return the columns of a person. A person without events has one empty row with a time before
    all exposures."""
    counts = "done.at >= exposed.since AND done.at < exposed.since + toIntervalSecond(%(window)s)"
    above = f"sumIf(ifNull(done.above_{number}, 0), {counts})"
    below = f"sumIf(ifNull(done.below_{number}, 0), {counts})"
    if metric.type is MetricType.CONVERSION:
        above = f"if({above} > 0, 1, 0)"
    if metric.type in (MetricType.CONVERSION, MetricType.COUNT, MetricType.SUM):
        below = "1"
    return f"{above} AS above_{number}, {below} AS below_{number}"


def judge(plan: RolloutPlan, rows: Sequence[Sequence[Any]]) -> list[dict[str, Any]]:
    """Return the evidence for each metric, as it is shown."""
    by_group = {row[0]: row[1:] for row in rows}
    return [
        _judge_metric(
            metric,
            _read_sums(by_group.get(TREATED), number),
            _read_sums(by_group.get(CONTROL), number),
            plan.test_alpha,
        )
        for number, metric in enumerate(plan.metrics)
    ]


def _read_sums(row: Sequence[Any] | None, number: int) -> GroupSums:
    start = 1 + _WIDTH * number
    persons, sums = (0, [0.0] * _WIDTH) if row is None else (row[0], row[start : start + _WIDTH])
    above, below, above_squares, below_squares, products, positive = (float(each) for each in sums)
    return GroupSums(
        persons=int(persons),
        numerator=above,
        denominator=below,
        numerator_squares=above_squares,
        denominator_squares=below_squares,
        products=products,
        positive=int(positive),
    )


def _judge_metric(
    metric: Guardrail, treated: GroupSums, control: GroupSums, alpha: float
) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": metric.name,
        "harm": metric.harm.value,
        "treated": _render_group(treated),
        "control": _render_group(control),
        "alpha": alpha,
        "difference": None,
        "relative_difference": None,
        "harm_at_least": None,
        "p_value": None,
    }
    test = build_sequential_test(treated, control)
    if min(treated.persons, control.persons) < metric.min_persons:
        why = (
            f"{treated.persons} persons with the feature and {control.persons} without it are "
            f"known; {metric.min_persons} of each are needed"
        )
        return found | {"verdict": TOO_FEW_PERSONS, "why": why}
    if not (treated.positive + control.positive and treated.denominator and control.denominator):
        return found | {"verdict": NO_DATA, "why": "no events of these persons have a value"}
    if test is None:
        return found | {"verdict": TOO_LITTLE_DATA, "why": "too few different values for a test"}
    return found | _render_test(metric, test, alpha)


def _render_test(metric: Guardrail, test: SequentialTest, alpha: float) -> dict[str, Any]:
    is_increase = metric.harm is Direction.INCREASE
    p_value = test.p_value(is_increase=is_increase)
    worse = test.difference if is_increase else -test.difference
    is_harm = p_value <= alpha
    relative = _keep_finite(test.difference / abs(test.control)) if test.control else None
    change = "" if relative is None else f" ({relative:+.1%})"
    sign = "at most" if is_harm else "above"
    return {
        "difference": test.difference,
        "relative_difference": relative,
        "harm_at_least": _keep_finite(worse - test.margin(alpha)),
        "p_value": p_value,
        "verdict": HARM if is_harm else NO_HARM,
        "why": (
            f"{test.treated:.6g} with the feature and {test.control:.6g} without it{change}, "
            f"p = {p_value:.2g}, {sign} {alpha:.2g}"
        ),
    }


def _render_group(group: GroupSums) -> dict[str, Any]:
    value = _keep_finite(group.value) if group.denominator else None
    return {"persons": group.persons, "value": value}


def _keep_finite(value: float) -> float | None:
    """JSON has no other numbers."""
    return value if math.isfinite(value) else None


def find_harm(found: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [each for each in found if each["verdict"] == HARM]


def find_missing(found: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [each for each in found if each["verdict"] in MISSING]


def describe(found: Sequence[Mapping[str, Any]]) -> str:
    return "; ".join(f"{each['name']}: {each['why']}" for each in found)
