"""A parsed PathsQuery, and its SQL."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.events.query.context import QueryContext
from hedgerow.filters.patterns import is_linear
from hedgerow.hogql.ast import Expr, Select
from hedgerow.hogql.builders import all_of, any_of, call, constant, equals, field, in_list, negate
from hedgerow.hogql.parser.parse import parse_expr
from hedgerow.hogql.templates import build_select
from hedgerow.hogql.traversal import replace_placeholders
from hedgerow.insights.date_range import TICK, DateRange
from hedgerow.insights.filters import build_query_filters
from hedgerow.insights.groups import build_actor, match_actor, parse_group_type
from hedgerow.insights.known_fields import PATHS_QUERY
from hedgerow.insights.paths.funnel_part import FunnelPart, build_times, parse_funnel_part
from hedgerow.projects.validation import check_storable
from hedgerow.queries.fields import QueryFields

DEFAULT_STEPS, MAX_STEPS = 5, 20
DEFAULT_EDGES, MAX_EDGES = 50, 1_000
MAX_NAMES = 50
# A break of this length ends a path.
MAX_BREAK = timedelta(minutes=30)
PAGEVIEW, SCREEN, CUSTOM, HOGQL = "$pageview", "$screen", "custom_event", "hogql"
EVENT_TYPES = (PAGEVIEW, SCREEN, CUSTOM, HOGQL)
_KEYS = {"start": "pathStartKey", "end": "pathEndKey"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PathsQuery:
    """`replacements` are pairs of a regular expression and what takes the place of its matches."""

    sent: Mapping[str, Any]
    event_types: Sequence[str]
    expression: str | None
    start: str | None
    end: str | None
    groupings: Sequence[str]
    replacements: Sequence[tuple[str, str]]
    excluded: Sequence[str]
    step_limit: int
    edge_limit: int
    min_weight: int | None
    max_weight: int | None
    group_type_index: int | None
    funnel: FunnelPart | None

    @property
    def date_range(self) -> Mapping[str, Any]:
        return self.sent.get("dateRange") or {}

    @property
    def date_ranges(self) -> list[Mapping[str, Any]]:
        """Its own, and that of its funnel."""
        return [self.date_range, *([self.funnel.query.date_range] if self.funnel else [])]

    @property
    def max_break(self) -> timedelta:
        """How long a break ends a path: as in PostHog, the window of its funnel."""
        return self.funnel.query.window if self.funnel else MAX_BREAK


def parse_paths_query(sent: Mapping[str, Any]) -> PathsQuery:
    fields = QueryFields(sent)
    fields.check_known(PATHS_QUERY)
    check_storable(sent, "query")
    fields.mapping("dateRange")
    fields.boolean("filterTestAccounts")
    options = QueryFields(fields.mapping("pathsFilter"), fields.attr("pathsFilter"))
    event_types = _read_names(options, "includeEventTypes")
    for each in event_types:
        if each not in EVENT_TYPES:
            detail = f"Expected some of: {', '.join(EVENT_TYPES)}."
            raise Invalid(detail, attr=options.attr("includeEventTypes"), code="invalid_choice")
    expression = options.text("pathsHogQLExpression") or None
    if HOGQL in event_types and expression is None:
        raise Invalid(
            "This field is required.", attr=options.attr("pathsHogQLExpression"), code="required"
        )
    return PathsQuery(
        sent=sent,
        event_types=event_types,
        expression=expression,
        start=_clean_point(options.text("startPoint")),
        end=_clean_point(options.text("endPoint")),
        groupings=_read_names(options, "pathGroupings"),
        replacements=_read_replacements(options),
        excluded=_read_names(options, "excludeEvents"),
        step_limit=options.number("stepLimit", 1, MAX_STEPS) or DEFAULT_STEPS,
        edge_limit=options.number("edgeLimit", 1, MAX_EDGES) or DEFAULT_EDGES,
        min_weight=options.number("minEdgeWeight", 1, 2**31),
        max_weight=options.number("maxEdgeWeight", 1, 2**31),
        group_type_index=parse_group_type(fields),
        funnel=parse_funnel_part(fields),
    )


def _read_names(options: QueryFields, name: str) -> list[str]:
    found = options.text_list(name)
    if len(found) > MAX_NAMES:
        raise Invalid(f"Expected at most {MAX_NAMES} values.", attr=options.attr(name))
    return found


def _read_replacements(options: QueryFields) -> list[tuple[str, str]]:
    attr = options.attr("localPathCleaningFilters")
    sent = options.list_field("localPathCleaningFilters")
    if len(sent) > MAX_NAMES:
        raise Invalid(f"Expected at most {MAX_NAMES} values.", attr=attr)
    found = []
    for number, each in enumerate(sent):
        rule = QueryFields(each if isinstance(each, dict) else {}, f"{attr}__{number}")
        pattern = rule.text("regex")
        if not pattern:
            continue
        if not is_linear(pattern):
            detail = "Not a valid regular expression in RE2's syntax."
            raise Invalid(detail, attr=rule.attr("regex"))
        found.append((pattern, rule.text("alias")))
    return found


def _clean_point(text: str) -> str | None:
    """Pages have no slash at the end."""
    return (text.rstrip("/") or "/") if text else None


def build_paths_query(
    query: PathsQuery, context: QueryContext, period: DateRange, earliest: datetime | None
) -> Select:
    """Build rows of source, target, number of times and average milliseconds between them."""
    weights = [f"value >= {query.min_weight}"] if query.min_weight else []
    weights += [f"value <= {query.max_weight}"] if query.max_weight else []
    having = f"HAVING {' AND '.join(weights)}" if weights else ""
    return build_select(
        f"""
        SELECT tupleElement(edge, 1) AS source, tupleElement(edge, 2) AS target,
            count() AS value, avg(tupleElement(edge, 3)) / 1000 AS average_conversion_time
        FROM (
            SELECT arrayJoin(arrayMap(
                (number, one, other, since, until) -> tuple(
                    concat(toString(number), '_', one), concat(toString(number + 1), '_', other),
                    until - since
                ),
                arrayEnumerate(arrayPopBack(items)), arrayPopBack(items), arrayPopFront(items),
                arrayPopBack(times), arrayPopFront(times)
            )) AS edge
            FROM (
                SELECT arrayMap(point -> tupleElement(point, 2), path) AS items,
                    arrayMap(point -> tupleElement(point, 1), path) AS times
                FROM {{paths}} AS paths
            )
            WHERE length(items) > 1
        )
        GROUP BY source, target {having}
        ORDER BY value DESC, source ASC, target ASC LIMIT {query.edge_limit}
        """,  # noqa: S608 - ours
        paths=_cut_paths(query, _build_all_paths(query, context, period, earliest)),
    )


def build_path_actors(
    query: PathsQuery, context: QueryContext, period: DateRange, earliest: datetime | None
) -> Select:
    """Build rows of actor and number of paths: who goes from `pathStartKey` to `pathEndKey`, or
    ends with `pathDropoffKey`. Keys are those of the results, such as `1_/home`."""
    keys = QueryFields(query.sent.get("pathsFilter") or {}, "query__source__source__pathsFilter")
    start, end = keys.text("pathStartKey"), keys.text("pathEndKey")
    last = keys.text("pathDropoffKey")
    wanted = [f"{name} = {{{name}}}" for name in ("start", "end") if keys.text(_KEYS[name])]
    matches = f"""arrayExists((start, end) -> {" AND ".join(wanted) or "true"},
        arrayPopBack(items), arrayPopFront(items))"""
    if last:
        matches = "arrayElement(items, -1) = {last}"
    return build_select(
        f"""
        SELECT actor, count() AS event_count
        FROM (
            SELECT actor, arrayMap(
                (number, point) -> concat(toString(number), '_', tupleElement(point, 2)),
                arrayEnumerate(path), path
            ) AS items
            FROM {{paths}} AS paths
        )
        WHERE {matches}
        GROUP BY actor ORDER BY event_count DESC, actor ASC
        """,  # noqa: S608 - ours
        paths=_cut_paths(query, _build_all_paths(query, context, period, earliest)),
        start=constant(start),
        end=constant(end),
        last=constant(last),
    )


def _build_all_paths(
    query: PathsQuery, context: QueryContext, period: DateRange, earliest: datetime | None
) -> Select:
    """Build rows of a path: pairs of time and item. Of an item that repeats, the last counts."""
    item = _build_item(query)
    where = [
        period.contains(field("timestamp")),
        build_query_filters(query.sent, context),
        match_actor(query.group_type_index),
        _match_types(query),
        call("notEmpty", item),
    ]
    if query.excluded:
        where.append(negate(in_list(item, query.excluded)))
    points = build_select(
        """
        SELECT {actor} AS actor,
            arraySort(groupArray(tuple(toUnixTimestamp64Micro(timestamp), {item}))) AS points
        FROM events WHERE {where} GROUP BY actor
        """,
        actor=build_actor(query.group_type_index),
        item=item,
        where=all_of(where),
    )
    if query.funnel is not None:
        points = build_select(
            """
            SELECT found.actor AS actor, arrayFilter(
                point -> tupleElement(point, 1) >= times.since
                    AND tupleElement(point, 1) <= times.until, found.points
            ) AS points
            FROM {points} AS found INNER JOIN {times} AS times ON times.actor = found.actor
            """,
            points=points,
            times=build_times(query.funnel, context, earliest),
        )
    # A path begins with the first point and after each long break.
    return build_select(
        f"""
        SELECT actor, arrayMap(point -> tupleElement(point, 2), run) AS items, arrayFilter(
            (point, item, next) -> item != next, run, items, arrayShiftLeft(items, 1, '')
        ) AS path
        FROM (
            SELECT actor, arrayJoin(arraySplit(
                (point, gap) -> gap >= {query.max_break // TICK}, points,
                arrayDifference(arrayMap(point -> tupleElement(point, 1), points))
            )) AS run
            FROM {{points}} AS points WHERE notEmpty(points)
        )
        """,  # noqa: S608 - ours
        points=points,
    )


def _cut_paths(query: PathsQuery, paths: Select) -> Select:
    """Keep the steps from the start point on, and those up to the first end point."""
    items = "arrayMap(point -> tupleElement(point, 2), path)"
    if query.start:
        paths = build_select(
            f"""
            SELECT actor, arraySlice(path, indexOf({items}, {{start}})) AS path
            FROM {{paths}} AS paths WHERE has({items}, {{start}})
            """,  # noqa: S608 - ours
            paths=paths,
            start=constant(query.start),
        )
    if query.end:
        paths = build_select(
            f"""
            SELECT actor, arraySlice(path, 1, indexOf({items}, {{end}})) AS path
            FROM {{paths}} AS paths WHERE has({items}, {{end}})
            """,  # noqa: S608 - ours
            paths=paths,
            end=constant(query.end),
        )
    return build_select(
        f"""
        SELECT actor, {_limit_steps(query)} AS path
        FROM {{paths}} AS paths
        """,  # noqa: S608 - ours
        paths=paths,
    )


def _limit_steps(query: PathsQuery) -> str:
    """Build the steps of a path that count: the first; towards an end point, the last; and from a
    start to an end, the first half and the last, with dots in between."""
    limit, half = query.step_limit, query.step_limit // 2
    if not query.end:
        return f"arraySlice(path, 1, {limit})"
    if not query.start or not half:
        return f"arraySlice(path, -{limit}, {limit})"
    dots = f"tuple(tupleElement(arrayElement(path, {half + 1}), 1), '...')"
    return f"""if(length(path) > {limit}, arrayConcat(
        arraySlice(path, 1, {half}), [{dots}], arraySlice(path, -{half}, {half})
    ), path)"""


def _build_item(query: PathsQuery) -> Expr:
    """Build the item of an event: the address of a page, the name of a screen, or the event."""
    if HOGQL in query.event_types:
        assert query.expression is not None
        item: Expr = call("toString", parse_expr(query.expression))
    else:
        url = field("properties", "$current_url")
        page = parse_expr("if(length({url}) > 1, replaceRegexpOne({url}, '/+$', ''), {url})")
        page = replace_placeholders(page, {"url": call("ifNull", url, constant(""))})
        screen = field("properties", "$screen_name")
        item = call(
            "multiIf",
            equals(field("event"), PAGEVIEW), page,
            equals(field("event"), SCREEN), call("ifNull", screen, constant("")),
            field("event"),
        )  # fmt: skip
    item = call("ifNull", item, constant(""))
    for pattern, alias in query.replacements:
        item = call("replaceRegexpAll", item, constant(pattern), constant(alias))
    return _group_items(query, item)


def _group_items(query: PathsQuery, item: Expr) -> Expr:
    if not query.groupings:
        return item
    parts: list[Expr] = []
    for each in query.groupings:
        pattern = ".*".join(re.escape(part) for part in each.split("*"))
        parts += [call("match", item, constant(f"^{pattern}$")), constant(each)]
    return call("multiIf", *parts, item)


def _match_types(query: PathsQuery) -> Expr:
    """Match the events of the chosen types: all, if none is chosen."""
    if not query.event_types or HOGQL in query.event_types:
        return constant(True)
    found: list[Expr] = [
        equals(field("event"), each) for each in query.event_types if each in (PAGEVIEW, SCREEN)
    ]
    if CUSTOM in query.event_types:
        found.append(negate(call("startsWith", field("event"), constant("$"))))
    return any_of(found)
