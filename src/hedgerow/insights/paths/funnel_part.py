"""The part of a funnel that paths are about: what people do before a step, after it, or between the
step before and it."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from hedgerow.errors import Invalid
from hedgerow.events.query.context import QueryContext
from hedgerow.hogql.ast import Select
from hedgerow.hogql.templates import build_select
from hedgerow.insights.date_range import TICK, parse_date_range
from hedgerow.insights.filters import build_query_filters
from hedgerow.insights.funnels.query import FunnelsQuery, parse_funnels_query
from hedgerow.insights.funnels.sql import Funnel, build_actors, is_reached
from hedgerow.queries.fields import QueryFields

# Later than any event, in microseconds.
_NEVER = 10**17


class FunnelPathType(StrEnum):
    BEFORE = "funnel_path_before_step"
    BETWEEN = "funnel_path_between_steps"
    AFTER = "funnel_path_after_step"


@dataclass(frozen=True, slots=True, kw_only=True)
class FunnelPart:
    """`step` is numbered from 1. If it is negative, those who do not reach it count, from the step
    before on."""

    query: FunnelsQuery
    type: FunnelPathType
    step: int

    @property
    def number(self) -> int:
        return abs(self.step)

    @property
    def target(self) -> int:
        """The step whose time counts: the last that was reached."""
        return self.step if self.step > 0 else self.number - 1


def parse_funnel_part(fields: QueryFields) -> FunnelPart | None:
    """Parse `funnelPathsFilter`."""
    sent = fields.mapping("funnelPathsFilter")
    if not sent:
        return None
    part = QueryFields(sent, fields.attr("funnelPathsFilter"))
    query = parse_funnels_query(part.mapping("funnelSource"))
    if query.actor_hogql or query.group_type_index is not None or query.breakdown is not None:
        detail = "Paths follow the persons of a funnel without a breakdown."
        raise Invalid(detail, attr=part.attr("funnelSource"))
    type = FunnelPathType(
        part.choice("funnelPathType", list(FunnelPathType)) or FunnelPathType.BEFORE
    )
    step, count = part.integer("funnelStep") or 1, len(query.steps)
    is_between = type is FunnelPathType.BETWEEN
    least = 2 if step < 0 or is_between else 1
    if not least <= abs(step) <= count or (is_between and step < 0):
        detail = f"A step from {least} to {count} is required."
        raise Invalid(detail, attr=part.attr("funnelStep"))
    return FunnelPart(query=query, type=type, step=step)


def build_times(part: FunnelPart, context: QueryContext, earliest: datetime | None) -> Select:
    """Build rows of actor, since and until: in which time the events of an actor count, in
    microseconds."""
    query = part.query
    period = parse_date_range(query.date_range, query.interval, context.time, earliest)
    filters = build_query_filters(query.sent, context)
    target = f"arrayElement(step_times, {part.target})"
    since, until = "0", str(_NEVER)
    match part.type:
        case FunnelPathType.BEFORE:
            until = target
        case FunnelPathType.AFTER:
            # Who drops off does so at the end of the window.
            since = target if part.step > 0 else f"{target} + {query.window // TICK}"
        case FunnelPathType.BETWEEN:
            since, until = f"arrayElement(step_times, {part.target - 1})", target
    reached = is_reached(query, part.number - 1)
    if part.step < 0:
        before = is_reached(query, query.find_required_before(part.number - 1))
        reached = f"{before} AND NOT {reached}"
    return build_select(
        f"""
        SELECT actor, _toInt64({since}) AS since, _toInt64({until}) AS until
        FROM {{actors}} AS actors WHERE {reached}
        """,  # noqa: S608 - ours
        actors=build_actors(Funnel(query=query, period=period, filters=filters), context),
    )
