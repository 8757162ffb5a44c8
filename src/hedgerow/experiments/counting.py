"""The questions to the event store: who was exposed to which variant, and what they did then.

A person counts once, as today's person: what was one person's under several ids before they were
merged is one person's here. Nothing is counted in Python.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from hedgerow.events.expressions import all_of, any_of, call, equal, field, value
from hedgerow.events.filters import Filters
from hedgerow.events.surroundings import Surroundings
from hedgerow.experiments.criteria import Criteria
from hedgerow.experiments.metrics import FUNNEL, RATIO, Metric, Step
from hedgerow.hogql.ast import Expr, Select
from hedgerow.hogql.parse import parse_expr, parse_select
from hedgerow.hogql.walk import replaced

# Longer than anything lasts, in microseconds.
_EVER = 10**16

# Variants are told by their number, 1 for the first: that is little to hold for each person. Of two
# at the same moment the one with the lesser number is the first, by one number for both: the
# engine takes far longer to compare pairs.
_EXPOSED = """
SELECT {unit} AS unit,
    min(timestamp) AS since,
    min(toDate(timestamp)) AS day,
    argMin({variant}, toUnixTimestamp64Micro(timestamp) * {more} + {variant}) AS first,
    min({variant}) != max({variant}) AS is_mixed
FROM events
WHERE event = {event} AND timestamp >= {start} AND timestamp < {end} AND {variant} > 0 AND {who}
GROUP BY unit
"""

_BY_DAY = """
SELECT variant, toString(day) AS day, count() AS people
FROM (SELECT if({leaves_out} AND is_mixed, 0, first) AS variant, day FROM {exposed} AS found)
GROUP BY variant, day
ORDER BY day, variant
"""

_BY_PERSON = """
FROM (
    SELECT exposed.unit AS person, any(exposed.first) AS variant, %s
    FROM {done} AS done
    RIGHT JOIN (
        SELECT unit, since, first FROM {exposed} AS found WHERE NOT ({leaves_out} AND is_mixed)
    ) AS exposed ON done.unit = exposed.unit
    GROUP BY exposed.unit
)
GROUP BY variant
ORDER BY variant
"""
_MEASURED = f"""
SELECT variant, count() AS people, sum(measured) AS total, varPopStable(measured) AS spread
{_BY_PERSON % "{measured} AS measured"}
"""
_RATIO = f"""
SELECT variant, count() AS people, sum(above) AS total, varPopStable(above) AS spread,
    sum(below) AS whole, varPopStable(below) AS whole_spread, covarPopStable(above, below) AS both
{_BY_PERSON % "{above} AS above, {below} AS below"}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exposure:
    """Who is counted: `unit` is the column of the events that names them."""

    criteria: Criteria
    flag_key: str
    variants: Sequence[str]
    unit: str
    start: datetime
    end: datetime


def exposures_by_day(exposure: Exposure, around: Surroundings) -> Select:
    """Rows of a variant's number, a day and how many were first exposed on it. The number is 0 for
    those who are left out because they saw several."""
    return _asked(_BY_DAY, exposed=_exposed(exposure, around), leaves_out=_leaves_out(exposure))


def measured(metric: Metric, exposure: Exposure, around: Surroundings) -> Select:
    """Rows of a variant's number, how many people it has, and the sum and the variance of what they
    did: of a funnel, 1 for each who converted. Of a ratio also the sum and the variance of what
    divides, and the covariance of both."""
    steps = [_condition(step, around) for step in metric.steps]
    end = exposure.end if metric.window is None else exposure.end + metric.window
    amounts = _amounts(metric, steps)
    names = [f"amount_{number}" for number in range(len(amounts))]
    columns = ", ".join(f"{{{name}}} AS {name}" for name in names)
    done = _asked(
        f"SELECT {{unit}} AS unit, timestamp AS at, {columns} FROM events "  # noqa: S608 - ours
        "WHERE timestamp >= {start} AND timestamp < {end} AND {filters}",
        unit=field(exposure.unit),
        start=value(exposure.start),
        end=value(end),
        filters=any_of(steps),
        **dict(zip(names, amounts, strict=True)),
    )
    text, measures = _measures(metric, names)
    return _asked(
        text,
        done=done,
        exposed=_exposed(exposure, around),
        leaves_out=_leaves_out(exposure),
        **measures,
    )


def _exposed(exposure: Exposure, around: Surroundings) -> Select:
    criteria = exposure.criteria
    said = call("ifNull", field("properties", criteria.variant_in), value(""))
    who: list[Expr] = []
    if exposure.unit != "person_id":
        who.append(call("notEmpty", field(exposure.unit)))
    if criteria.names_flag:
        who.append(equal(field("properties", "$feature_flag"), exposure.flag_key))
    if criteria.properties:
        place = "exposure_criteria.exposure_config.properties"
        who.append(_filters(around).all(criteria.properties, place))
    return _asked(
        _EXPOSED,
        unit=field(exposure.unit),
        more=value(len(exposure.variants) + 1),
        variant=call("indexOf", value(list(exposure.variants)), said),
        event=value(criteria.event),
        start=value(exposure.start),
        end=value(exposure.end),
        who=all_of(who),
    )


def _leaves_out(exposure: Exposure) -> Expr:
    return value(not exposure.criteria.is_first_kept)


def _condition(step: Step, around: Surroundings) -> Expr:
    parts: list[Expr] = [equal(field("event"), step.event)] if step.event else []
    if step.properties:
        parts.append(_filters(around).all(step.properties, f"{step.place}.properties"))
    return all_of(parts)


def _amounts(metric: Metric, steps: Sequence[Expr]) -> list[Expr]:
    """What one event adds to each of a person's measures."""
    if metric.type == FUNNEL:
        return [call("if", each, value(1), value(0)) for each in steps]
    amounts = [_amount(name) for name in metric.summed]
    if metric.type == RATIO:
        pairs = zip(steps, amounts, strict=True)
        return [call("if", each, amount, value(0)) for each, amount in pairs]
    return amounts


def _amount(summed: str | None) -> Expr:
    """A property that is no number adds nothing."""
    if summed is None:
        return value(1)
    number = call("toFloat", field("properties", summed))
    return call("ifNotFinite", call("ifNull", number, value(0)), value(0))


def _measures(metric: Metric, names: Sequence[str]) -> tuple[str, dict[str, Expr]]:
    """A question, and what it asks of the events of one person. Somebody who did nothing has one
    empty row, of a time before all exposures."""
    counts = "done.at >= exposed.since"
    if metric.window is not None:
        seconds = int(metric.window.total_seconds())
        counts += f" AND done.at <= exposed.since + toIntervalSecond({seconds})"
    if metric.type != FUNNEL:
        sums = [parse_expr(f"sumIf(ifNull(done.{name}, 0), {counts})") for name in names]
        if metric.type == RATIO:
            return _RATIO, dict(zip(("above", "below"), sums, strict=True))
        return _MEASURED, {"measured": sums[0]}
    reached = [f"ifNull(done.{name}, 0) = 1 AND {counts}" for name in names]
    if len(reached) == 1:
        return _MEASURED, {"measured": parse_expr(f"max(if({reached[0]}, 1, 0))")}
    at = "_toUInt64(max2(toUnixTimestamp64Micro(done.at), 0))"
    # An event is one step only, also where it would do for several.
    steps = f"windowFunnel({_EVER}, 'strict_once')({at}, {', '.join(reached)})"
    return _MEASURED, {"measured": parse_expr(f"if({steps} = {len(names)}, 1, 0)")}


def _filters(around: Surroundings) -> Filters:
    return Filters(around.at, around.cohorts, parse_expr)


def _asked(text: str, **parts: Expr) -> Select:
    return replaced(parse_select(text), parts)
