"""A parsed FunnelsQuery."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.insights.breakdowns import Breakdown, parse_breakdown
from hedgerow.insights.date_range import Interval, parse_interval
from hedgerow.insights.groups import parse_group_type
from hedgerow.insights.known_fields import FUNNELS_QUERY
from hedgerow.insights.series import Series, parse_series, parse_series_list
from hedgerow.projects.validation import check_storable
from hedgerow.queries.fields import QueryFields

MAX_STEPS = 20
MAX_EXCLUSIONS = 5
DEFAULT_WINDOW_DAYS = 14
MAX_BINS = 90
MAX_WINDOW = timedelta(days=10_000)
FLOW = "flow"
_UNITS = {
    "second": timedelta(seconds=1),
    "minute": timedelta(minutes=1),
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
    "week": timedelta(weeks=1),
    # As in PostHog, the longest month.
    "month": timedelta(days=31),
}


class FunnelOrder(StrEnum):
    ORDERED = "ordered"
    STRICT = "strict"
    UNORDERED = "unordered"


class FunnelView(StrEnum):
    """What a funnel shows: its steps, how long a conversion takes, or the rate over time."""

    STEPS = "steps"
    TIME_TO_CONVERT = "time_to_convert"
    TRENDS = "trends"


class Attribution(StrEnum):
    """Which event of a person decides the value of the breakdown."""

    FIRST_TOUCH = "first_touch"
    LAST_TOUCH = "last_touch"
    ALL_EVENTS = "all_events"
    STEP = "step"


@dataclass(frozen=True, slots=True, kw_only=True)
class Exclusion:
    """Events that end an attempt between two steps, numbered from 0."""

    series: Series
    from_step: int
    to_step: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FunnelsQuery:
    """`from_step` and `to_step` are the steps that rates and times refer to, from 0. `actor` is
    HogQL, a group type, or neither for persons. `optional` are the numbers of the steps that an
    attempt may leave out."""

    sent: Mapping[str, Any]
    steps: Sequence[Series]
    optional: frozenset[int]
    interval: Interval
    view: FunnelView
    order: FunnelOrder
    window: timedelta
    exclusions: Sequence[Exclusion]
    breakdown: Breakdown | None
    attribution: Attribution
    attribution_step: int
    from_step: int
    to_step: int
    bin_count: int | None
    actor_hogql: str | None
    group_type_index: int | None

    @property
    def date_range(self) -> Mapping[str, Any]:
        return self.sent.get("dateRange") or {}

    def find_required_before(self, step: int) -> int:
        """Return the last step before one that an attempt cannot leave out."""
        return max(each for each in range(step) if each not in self.optional)


def parse_funnels_query(sent: Mapping[str, Any]) -> FunnelsQuery:
    fields = QueryFields(sent)
    fields.check_known(FUNNELS_QUERY)
    check_storable(sent, "query")
    options = QueryFields(fields.mapping("funnelsFilter"), fields.attr("funnelsFilter"))
    fields.mapping("dateRange")
    fields.boolean("filterTestAccounts")
    _refuse_unsupported(fields, options)
    steps = parse_series_list(fields)
    if len(steps) > MAX_STEPS:
        raise Invalid(f"Expected at most {MAX_STEPS} steps.", attr=fields.attr("series"))
    order = FunnelOrder(options.choice("funnelOrderType", list(FunnelOrder)) or FunnelOrder.ORDERED)
    view = _parse_view(options)
    optional = _parse_optional(fields, steps)
    if optional and (order is FunnelOrder.UNORDERED or view is not FunnelView.STEPS):
        detail = "Only the steps of a funnel with an order can be optional."
        raise Invalid(detail, attr=f"{steps[min(optional)].attr}__optionalInFunnel")
    exclusions = _parse_exclusions(options, len(steps))
    if order is FunnelOrder.UNORDERED:
        _check_unordered(exclusions, options, len(steps))
    breakdown = parse_breakdown(fields.mapping("breakdownFilter"), fields.attr("breakdownFilter"))
    attribution = Attribution(
        options.choice("breakdownAttributionType", list(Attribution)) or Attribution.FIRST_TOUCH
    )
    attribution_step = _parse_step(options, "breakdownAttributionValue", 0, len(steps))
    if attribution_step and attribution is Attribution.STEP and order is FunnelOrder.UNORDERED:
        detail = "In an unordered funnel, only the first step decides the value."
        raise Invalid(detail, attr=options.attr("breakdownAttributionValue"))
    from_step = _parse_step(options, "funnelFromStep", 0, len(steps))
    to_step = _parse_step(options, "funnelToStep", len(steps) - 1, len(steps))
    if view is not FunnelView.STEPS and from_step >= to_step:
        detail = "Expected a step after funnelFromStep. A funnel of one step has no conversion."
        raise Invalid(detail, attr=options.attr("funnelToStep"))
    return FunnelsQuery(
        sent=sent,
        steps=steps,
        optional=optional,
        interval=parse_interval(fields),
        view=view,
        order=order,
        window=_parse_window(options),
        exclusions=exclusions,
        breakdown=breakdown,
        attribution=attribution,
        attribution_step=attribution_step,
        from_step=from_step,
        to_step=to_step,
        bin_count=_parse_bins(options),
        actor_hogql=options.text("funnelAggregateByHogQL") or None,
        group_type_index=parse_group_type(fields),
    )


def _refuse_unsupported(fields: QueryFields, options: QueryFields) -> None:
    comparison = QueryFields(fields.mapping("compareFilter"), fields.attr("compareFilter"))
    comparison.refuse_value("compare", "Funnels have no comparison with another period.")
    options.refuse_value(
        "hideIncompleteConversionWindowPeriods",
        "Intervals whose window is not over are shown. End the range earlier to leave them out.",
    )
    options.refuse_value("customAggregationTarget", "Tables of a data warehouse are not supported.")


def _parse_view(options: QueryFields) -> FunnelView:
    """Parse what the funnel shows. A flow has the numbers of the steps."""
    sent = options.choice("funnelVizType", (*FunnelView, FLOW))
    return FunnelView.STEPS if sent in (None, FLOW) else FunnelView(sent)


def _parse_optional(fields: QueryFields, steps: Sequence[Series]) -> frozenset[int]:
    found = frozenset(
        number
        for number, each in enumerate(fields.list_field("series"))
        if QueryFields(each, steps[number].attr).boolean("optionalInFunnel")
    )
    for number in found:
        attr = f"{steps[number].attr}__optionalInFunnel"
        if number == 0:
            raise Invalid("The first step of a funnel cannot be optional.", attr=attr)
        is_followed = number + 1 < len(steps) and number + 1 not in found
        if is_followed and steps[number].matches_same_events(steps[number + 1]):
            detail = "An optional step cannot be the same as the required step after it."
            raise Invalid(detail, attr=attr)
    return found


def _parse_window(options: QueryFields) -> timedelta:
    unit = options.text("funnelWindowIntervalUnit") or "day"
    if unit not in _UNITS:
        detail = f"Expected one of: {', '.join(_UNITS)}."
        raise Invalid(detail, attr=options.attr("funnelWindowIntervalUnit"), code="invalid_choice")
    count = options.integer("funnelWindowInterval")
    if count is None:
        count = DEFAULT_WINDOW_DAYS
    if not 1 <= count <= MAX_WINDOW / _UNITS[unit]:
        detail = f"A window from 1 {unit} to {MAX_WINDOW.days} days is required."
        raise Invalid(detail, attr=options.attr("funnelWindowInterval"))
    return _UNITS[unit] * count


def _parse_step(options: QueryFields, name: str, default: int, count: int) -> int:
    step = options.integer(name)
    if step is None:
        return default
    if not 0 <= step < count:
        raise Invalid(f"A step from 0 to {count - 1} is required.", attr=options.attr(name))
    return step


def _parse_exclusions(options: QueryFields, count: int) -> list[Exclusion]:
    attr = options.attr("exclusions")
    sent = options.list_field("exclusions")
    if len(sent) > MAX_EXCLUSIONS:
        raise Invalid(f"Expected at most {MAX_EXCLUSIONS} exclusions.", attr=attr)
    found = []
    for number, each in enumerate(sent):
        place = f"{attr}__{number}"
        series = parse_series(each, place)
        fields = QueryFields(each, place)
        from_step = _parse_step(fields, "funnelFromStep", 0, count)
        to_step = _parse_step(fields, "funnelToStep", count - 1, count)
        if from_step >= to_step:
            detail = "Expected a step after funnelFromStep."
            raise Invalid(detail, attr=fields.attr("funnelToStep"))
        found.append(Exclusion(series=series, from_step=from_step, to_step=to_step))
    return found


def _check_unordered(exclusions: Sequence[Exclusion], options: QueryFields, count: int) -> None:
    for number, each in enumerate(exclusions):
        if (each.from_step, each.to_step) != (0, count - 1):
            detail = f"In an unordered funnel, an exclusion is from step 0 to step {count - 1}."
            raise Invalid(detail, attr=f"{options.attr('exclusions')}__{number}")


def _parse_bins(options: QueryFields) -> int | None:
    count = options.integer("binCount")
    return None if count is None else min(max(count, 1), MAX_BINS)
