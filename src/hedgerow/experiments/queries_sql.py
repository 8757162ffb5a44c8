"""The queries of an analysis: exposures by variant and day, and metric values by variant.

People are counted as current persons: a person whose distinct ids were merged counts once. All
counting happens in the event store.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from hedgerow.events.filters.compiler import FilterCompiler
from hedgerow.events.query.context import QueryContext, find_action, match_action
from hedgerow.experiments.criteria import ExposureCriteria
from hedgerow.experiments.metrics import FUNNEL, RATIO, Metric, MetricStep
from hedgerow.hogql.ast import Expr, Select
from hedgerow.hogql.builders import all_of, any_of, call, constant, equals, field
from hedgerow.hogql.parser.parse import parse_expr
from hedgerow.hogql.templates import build_select
from hedgerow.lib.dates import EARLIEST

# Longer than any experiment, in microseconds.
_MAX_WINDOW_US = 10**16

# Variants are numbered from 1, which takes little memory for each person. One number orders by
# time, then by variant: ClickHouse takes much longer to compare pairs.
_EXPOSED_SQL = """
SELECT {unit} AS unit,
    min(timestamp) AS since,
    min(toDate(timestamp)) AS day,
    argMin({variant}, toUnixTimestamp64Micro(timestamp) * {more} + {variant}) AS first,
    min({variant}) != max({variant}) AS is_mixed
FROM events
WHERE event = {event} AND timestamp >= {start} AND timestamp < {end} AND {variant} > 0 AND {who}
GROUP BY unit
"""

_EXPOSURES_BY_DAY_SQL = """
SELECT variant, toString(day) AS day, count() AS people
FROM (SELECT if({leaves_out} AND is_mixed, 0, first) AS variant, day FROM {exposed} AS found)
GROUP BY variant, day
ORDER BY day, variant
"""

_BY_PERSON_SQL = """
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
_MEASURED_SQL = f"""
SELECT variant, count() AS people, sum(measured) AS total, varPopStable(measured) AS spread
{_BY_PERSON_SQL % "{measured} AS measured"}
"""
_RATIO_SQL = f"""
SELECT variant, count() AS people, sum(above) AS total, varPopStable(above) AS spread,
    sum(below) AS whole, varPopStable(below) AS whole_spread, covarPopStable(above, below) AS both
{_BY_PERSON_SQL % "{above} AS above, {below} AS below"}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExposureQuery:
    """Which people count as exposed. `unit` is the event column that identifies them."""

    criteria: ExposureCriteria
    flag_key: str
    variants: Sequence[str]
    unit: str
    start: datetime
    end: datetime


def build_exposure_query(exposure: ExposureQuery, context: QueryContext) -> Select:
    """Build a query for rows of variant number, day and number of people first exposed on it.
    Number 0 are people who are excluded because they saw several variants."""
    return build_select(
        _EXPOSURES_BY_DAY_SQL,
        exposed=_build_exposed(exposure, context),
        leaves_out=_excludes_mixed(exposure),
    )


def build_metric_query(
    metric: Metric,
    exposure: ExposureQuery,
    context: QueryContext,
    lookback: timedelta | None = None,
) -> Select:
    """Build a query for rows of variant number, number of people, and the sum and variance of their
    values; a funnel has the value 1 for each conversion. A ratio also has the sum and variance of
    the denominator and the covariance of both. With `lookback`, a mean has those of the values
    before the exposure."""
    steps = [_build_step(step, context) for step in metric.steps]
    end = (
        exposure.end
        if metric.conversion_window is None
        else exposure.end + metric.conversion_window
    )
    amounts = _build_amounts(metric, steps)
    names = [f"amount_{number}" for number in range(len(amounts))]
    columns = ", ".join(f"{{{name}}} AS {name}" for name in names)
    done = build_select(
        f"SELECT {{unit}} AS unit, timestamp AS at, {columns} FROM events "  # noqa: S608 - ours
        "WHERE timestamp >= {start} AND timestamp < {end} AND {filters}",
        unit=field(exposure.unit),
        start=constant(max(exposure.start - (lookback or timedelta()), EARLIEST)),
        end=constant(end),
        filters=any_of(steps),
        **dict(zip(names, amounts, strict=True)),
    )
    text, measures = _build_measures(metric, names, lookback)
    return build_select(
        text,
        done=done,
        exposed=_build_exposed(exposure, context),
        leaves_out=_excludes_mixed(exposure),
        **measures,
    )


def _build_exposed(exposure: ExposureQuery, context: QueryContext) -> Select:
    criteria = exposure.criteria
    sent_variant = call("ifNull", field("properties", criteria.variant_property), constant(""))
    who: list[Expr] = []
    if exposure.unit != "person_id":
        who.append(call("notEmpty", field(exposure.unit)))
    if criteria.is_flag_called:
        who.append(equals(field("properties", "$feature_flag"), exposure.flag_key))
    if criteria.properties:
        place = "exposure_criteria.exposure_config.properties"
        who.append(_filter_compiler(context).compile(criteria.properties, place))
    return build_select(
        _EXPOSED_SQL,
        unit=field(exposure.unit),
        more=constant(len(exposure.variants) + 1),
        variant=call("indexOf", constant(list(exposure.variants)), sent_variant),
        event=constant(criteria.event),
        start=constant(exposure.start),
        end=constant(exposure.end),
        who=all_of(who),
    )


def _excludes_mixed(exposure: ExposureQuery) -> Expr:
    return constant(not exposure.criteria.is_first_variant_kept)


def _build_step(step: MetricStep, context: QueryContext) -> Expr:
    parts: list[Expr] = [equals(field("event"), step.event)] if step.event else []
    if step.action_id is not None:
        action = find_action(step.action_id, context, f"{step.attr}.id")
        parts.append(match_action(action, context))
    if step.properties:
        parts.append(_filter_compiler(context).compile(step.properties, f"{step.attr}.properties"))
    return all_of(parts)


def _build_amounts(metric: Metric, steps: Sequence[Expr]) -> list[Expr]:
    """Build what one event adds to each value of a person."""
    if metric.type == FUNNEL:
        return [call("if", each, constant(1), constant(0)) for each in steps]
    amounts = [_build_amount(name) for name in metric.summed_properties]
    if metric.type == RATIO:
        pairs = zip(steps, amounts, strict=True)
        return [call("if", each, amount, constant(0)) for each, amount in pairs]
    return amounts


def _build_amount(summed: str | None) -> Expr:
    """Build the amount of an event. A property that is not a number adds nothing."""
    if summed is None:
        return constant(1)
    number = call("toFloat", field("properties", summed))
    return call("ifNotFinite", call("ifNull", number, constant(0)), constant(0))


def _build_measures(
    metric: Metric, names: Sequence[str], lookback: timedelta | None
) -> tuple[str, dict[str, Expr]]:
    """Build the values of one person. A person without events has one empty row with a time before
    all exposures."""
    counts = "done.at >= exposed.since"
    if metric.conversion_window is not None:
        seconds = int(metric.conversion_window.total_seconds())
        counts += f" AND done.at <= exposed.since + toIntervalSecond({seconds})"
    if metric.type != FUNNEL:
        sums = [parse_expr(f"sumIf(ifNull(done.{name}, 0), {counts})") for name in names]
        if metric.type == RATIO:
            return _RATIO_SQL, dict(zip(("above", "below"), sums, strict=True))
        if lookback is not None:
            seconds = int(lookback.total_seconds())
            begin = f"exposed.since - toIntervalSecond({seconds})"
            earlier = f"done.at < exposed.since AND done.at >= {begin}"
            history = parse_expr(f"sumIf(ifNull(done.{names[0]}, 0), {earlier})")
            return _RATIO_SQL, {"above": sums[0], "below": history}
        return _MEASURED_SQL, {"measured": sums[0]}
    reached = [f"ifNull(done.{name}, 0) = 1 AND {counts}" for name in names]
    if len(reached) == 1:
        return _MEASURED_SQL, {"measured": parse_expr(f"max(if({reached[0]}, 1, 0))")}
    at = "_toUInt64(max2(toUnixTimestamp64Micro(done.at), 0))"
    # An event counts for one step only, even if it matches several.
    steps = f"windowFunnel({_MAX_WINDOW_US}, 'strict_once')({at}, {', '.join(reached)})"
    return _MEASURED_SQL, {"measured": parse_expr(f"if({steps} = {len(names)}, 1, 0)")}


def _filter_compiler(context: QueryContext) -> FilterCompiler:
    return FilterCompiler(context.time, context.cohorts, parse_expr)
