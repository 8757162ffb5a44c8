"""A series of an insight: which events it counts, and the math on them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.events.actions.model import Action
from hedgerow.events.filters.compiler import FilterCompiler
from hedgerow.events.query.context import QueryContext, find_action, match_action
from hedgerow.hogql.ast import Compare, Expr
from hedgerow.hogql.builders import all_of, any_of, call, compare, equals, field
from hedgerow.hogql.parser.parse import parse_expr
from hedgerow.hogql.templates import build_select
from hedgerow.lib.text import parse_whole_number
from hedgerow.persons.model import MAX_GROUP_TYPES
from hedgerow.projects.validation import check_storable
from hedgerow.queries.fields import QueryFields

MAX_SERIES = 26
EVENTS, ACTIONS, GROUP = "EventsNode", "ActionsNode", "GroupNode"
MAX_NODES = 20
OPERATORS = ("OR", "AND")
ALL_EVENTS = "All events"
DEFAULT_EVENT = "$pageview"
SESSION_DURATION = "$session_duration"

_PROPERTY_MATH = ("sum", "avg", "min", "max", "median", "p75", "p90", "p95", "p99")
_ACTOR_MATH = tuple(
    f"{name}_count_per_actor"
    for name in ("avg", "min", "max", "median", "p75", "p90", "p95", "p99")
)
_PLAIN_MATH = (
    "total", "dau", "weekly_active", "monthly_active", "unique_session", "unique_group",
    "hogql",
)  # fmt: skip
# Counts groups, with `math_group_type_index`.
_GROUP_MATH = ("unique_group", "dau", "weekly_active", "monthly_active")
# The first event of the series, or the first that also matches the filters.
FIRST_TIME = (
    "first_time_for_user", "first_matching_event_for_user", "first_time_for_user_with_filters",
)  # fmt: skip
MATH = (*_PLAIN_MATH, *FIRST_TIME, *_PROPERTY_MATH, *_ACTOR_MATH)
# The place of a math property, by `math_property_type`.
_PROPERTY_CHAINS: Mapping[str, tuple[str, ...]] = {
    "event_properties": ("properties",),
    "numerical_event_properties": ("properties",),
    # Of these, only the duration is supported, which has its own SQL.
    "session_properties": ("properties",),
    "person_properties": ("person", "properties"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """The events of an action, or with one name; without both, all events. A group has the events
    of one of its `nodes`, or with `needs_all_nodes` those that all of them have. `attr` is the
    place of the series in the query."""

    attr: str
    event: str | None
    action_id: int | None = None
    name: str
    custom_name: str | None
    properties: Sequence[Any]
    math: str
    math_property: str | None
    math_property_type: str | None
    math_hogql: str | None
    math_group_type_index: int | None
    math_multiplier: float | None
    nodes: Sequence["Series"] = ()
    needs_all_nodes: bool = False

    @property
    def label(self) -> str:
        """The name of the series, for an action with `name_action`."""
        is_named = self.action_id is not None or bool(self.nodes)
        return self.event or (self.name if is_named else ALL_EVENTS)

    @property
    def entity_id(self) -> str | int | None:
        return self.event if self.action_id is None else self.action_id

    @property
    def entity_type(self) -> str:
        if self.nodes:
            return "groups"
        return "events" if self.action_id is None else "actions"

    def matches_same_events(self, other: "Series") -> bool:
        return self._matched == other._matched

    def may_share_events(self, other: "Series") -> bool:
        """Whether an event may match both: unless both are events of different names."""
        names = [self.event, other.event]
        return None in names or names[0] == names[1]

    @property
    def _matched(self) -> tuple[Any, ...]:
        """What decides which events match."""
        nodes = [each._matched for each in self.nodes]
        return self.entity_type, self.entity_id, self.properties, nodes, self.needs_all_nodes

    @property
    def is_property_math(self) -> bool:
        return self.math in _PROPERTY_MATH

    @property
    def is_actor_math(self) -> bool:
        return self.math in _ACTOR_MATH

    @property
    def group_type_index(self) -> int | None:
        """The type of the groups that unique counts count. None for persons."""
        return self.math_group_type_index if self.math in _GROUP_MATH else None

    @property
    def actor(self) -> Expr:
        """The column that identifies whom unique counts count."""
        if self.group_type_index is not None:
            return field(f"$group_{self.group_type_index}")
        return field("$session_id") if self.math == "unique_session" else field("person_id")

    @property
    def amount(self) -> Expr:
        """The property that sums and averages use."""
        assert self.math_property is not None
        place = _PROPERTY_CHAINS[self.math_property_type or "event_properties"]
        return field(*place, self.math_property)


def parse_series_list(fields: QueryFields, name: str = "series") -> list[Series]:
    sent = fields.list_field(name)
    attr = fields.attr(name)
    if not sent:
        raise Invalid("Expected at least one series.", attr=attr, code="required")
    if len(sent) > MAX_SERIES:
        raise Invalid(f"Expected at most {MAX_SERIES} series.", attr=attr)
    return [parse_series(each, f"{attr}__{number}") for number, each in enumerate(sent)]


def parse_series(sent: Any, attr: str) -> Series:
    if not isinstance(sent, dict):
        raise Invalid("Expected an object.", attr=attr)
    check_storable(sent, attr)
    fields = QueryFields(sent, attr)
    kind = fields.choice("kind", (EVENTS, ACTIONS, GROUP)) or EVENTS
    nodes = _parse_nodes(fields) if kind == GROUP else []
    event = fields.text("event") or None
    action_id = _read_action_id(fields) if kind == ACTIONS else None
    if event and kind != EVENTS:
        what = "An action" if kind == ACTIONS else "A group"
        raise Invalid(f"{what} has no event. Leave this field out.", attr=fields.attr("event"))
    if kind != GROUP:
        fields.refuse_value("nodes", "Only a GroupNode has nodes.")
    fields.refuse_value("math_property_revenue_currency", "Currencies are not supported.")
    found = Series(
        attr=attr,
        event=event,
        action_id=action_id,
        name=fields.text("name") or event or _name_series(kind, nodes),
        custom_name=fields.text("custom_name") or None,
        properties=[
            *_read_filters(fields, "properties"),
            *_read_filters(fields, "fixedProperties"),
        ],
        math=fields.choice("math", MATH) or "total",
        math_property=fields.text("math_property") or None,
        math_property_type=fields.choice("math_property_type", tuple(_PROPERTY_CHAINS)),
        math_hogql=fields.text("math_hogql") or None,
        math_group_type_index=fields.integer("math_group_type_index"),
        math_multiplier=_read_multiplier(sent, fields),
        nodes=nodes,
        needs_all_nodes=fields.choice("operator", OPERATORS) == OPERATORS[1],
    )
    _check_math(found, fields)
    return found


def _parse_nodes(fields: QueryFields) -> list[Series]:
    """Parse the events and actions of a group."""
    sent, attr = fields.list_field("nodes"), fields.attr("nodes")
    if not 1 <= len(sent) <= MAX_NODES:
        raise Invalid(f"Expected from 1 to {MAX_NODES} nodes.", attr=attr)
    found = [parse_series(each, f"{attr}__{number}") for number, each in enumerate(sent)]
    for each in found:
        if each.nodes:
            raise Invalid("A group has no groups.", attr=f"{each.attr}__kind")
    return found


def _name_series(kind: str, nodes: Sequence[Series]) -> str:
    if kind == GROUP:
        return ", ".join(each.name or str(each.action_id) for each in nodes)
    return "" if kind == ACTIONS else ALL_EVENTS


def parse_entity(fields: QueryFields, name: str) -> Series:
    """Parse the event or action of a retention, in PostHog's older shape. Pageviews if there is
    none."""
    sent = fields.mapping(name) or {"id": DEFAULT_EVENT}
    attr = fields.attr(name)
    entity = QueryFields(sent, attr)
    for field_name in ("table_name", "timestamp_field", "aggregation_target_field"):
        entity.refuse_value(field_name, "Tables of a data warehouse are not supported.")
    is_action = entity.choice("type", ("events", "actions")) == "actions"
    which = {"kind": ACTIONS, "id": sent.get("id")} if is_action else {"event": entity.text("id")}
    return parse_series(
        {
            **which,
            "name": sent.get("name"),
            "custom_name": sent.get("custom_name"),
            "properties": sent.get("properties"),
        },
        attr,
    )


def _read_action_id(fields: QueryFields) -> int:
    """Read the id of an action, which may be text."""
    sent = fields.raw("id")
    id = parse_whole_number(sent) if isinstance(sent, str) else sent
    if isinstance(id, float) and id.is_integer():
        id = int(id)
    if isinstance(id, bool) or not isinstance(id, int):
        raise Invalid("Expected the id of an action.", attr=fields.attr("id"), code="required")
    return id


def _read_filters(fields: QueryFields, name: str) -> list[Any]:
    """Read a list of filters, or one group of filters."""
    sent = fields.raw(name)
    return [sent] if isinstance(sent, dict) else fields.list_field(name)


def _read_multiplier(sent: Mapping[str, Any], fields: QueryFields) -> float | None:
    value = sent.get("math_multiplier")
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise Invalid("A valid number is required.", attr=fields.attr("math_multiplier"))
    return value


def _check_math(series: Series, fields: QueryFields) -> None:
    if (series.is_property_math) and series.math_property is None:
        detail = f'The math "{series.math}" requires the name of a property.'
        raise Invalid(detail, attr=fields.attr("math_property"), code="required")
    if series.math_property_type == "session_properties" and (
        series.math_property != SESSION_DURATION
    ):
        detail = f"Of sessions, only {SESSION_DURATION} is supported."
        raise Invalid(detail, attr=fields.attr("math_property"))
    if series.math == "hogql" and series.math_hogql is None:
        detail = 'The math "hogql" requires an aggregation, such as sum(properties.price).'
        raise Invalid(detail, attr=fields.attr("math_hogql"), code="required")
    index = series.group_type_index
    if (index is None and series.math == "unique_group") or (
        index is not None and not 0 <= index < MAX_GROUP_TYPES
    ):
        detail = f"A number from 0 to {MAX_GROUP_TYPES - 1} is required."
        raise Invalid(detail, attr=fields.attr("math_group_type_index"))


def filter_compiler(context: QueryContext) -> FilterCompiler:
    return FilterCompiler(context.time, context.cohorts, parse_expr)


def match_event(
    series: Series, context: QueryContext, compiler: FilterCompiler | None = None
) -> list[Expr]:
    """Build the conditions for the events of a series without its own filters."""
    if series.nodes:
        compiler = compiler or filter_compiler(context)
        parts = [match_series(each, context, compiler) for each in series.nodes]
        return [all_of(parts) if series.needs_all_nodes else any_of(parts)]
    if series.action_id is not None:
        return [match_action(_find_action(series, context), context)]
    return [equals(field("event"), series.event)] if series.event else []


def match_series(series: Series, context: QueryContext, compiler: FilterCompiler) -> Expr:
    """Build the condition for the events of a series. The limits of filters are those of the
    compiler, for all series that it compiles."""
    parts = match_event(series, context, compiler)
    if series.properties:
        parts.append(compiler.compile(list(series.properties), f"{series.attr}__properties"))
    return all_of(parts)


def is_first_of_person(matches: Expr) -> Expr:
    """Match the first event of each person that matches a condition."""
    firsts = build_select(
        """
        SELECT actor, at FROM (
            SELECT person_id AS actor, min(timestamp) AS at FROM events WHERE {matches}
            GROUP BY actor
        )
        """,
        matches=matches,
    )
    return compare(call("tuple", field("person_id"), field("timestamp")), Compare.IN, firsts)


def name_action(series: Series, context: QueryContext) -> Series:
    """Return the series with the name of its action, if the query has no name for it."""
    if series.action_id is None or series.name:
        return series
    return replace(series, name=_find_action(series, context).name)


def _find_action(series: Series, context: QueryContext) -> Action:
    assert series.action_id is not None
    return find_action(series.action_id, context, f"{series.attr}__id")
