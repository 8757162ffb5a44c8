"""Breakdowns: one result for each value of a property, for each range of numbers, or for each
cohort."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.events.filters.compiler import SESSION_KEYS
from hedgerow.events.query.context import QueryContext
from hedgerow.hogql.ast import Expr
from hedgerow.hogql.builders import call, constant, field
from hedgerow.hogql.parser.parse import parse_expr
from hedgerow.hogql.traversal import replace_placeholders
from hedgerow.lib.text import truncate
from hedgerow.persons.model import MAX_GROUP_TYPES, CohortId
from hedgerow.projects.validation import check_storable
from hedgerow.queries.fields import QueryFields

# What PostHog's clients show as "None" and "Other".
NULL_LABEL = "$$_posthog_breakdown_null_$$"
OTHER_LABEL = "$$_posthog_breakdown_other_$$"
# In a funnel.
PLAIN_OTHER_LABEL = "Other"
ALL_USERS = "all"
DEFAULT_LIMIT = 25
MAX_LIMIT = 1_000
MAX_BREAKDOWNS = 3
MAX_BINS = 100
COHORT = "cohort"
SESSION = "session"
TYPES = ("event", "person", "group", SESSION, "hogql", "event_metadata", "feature")


# The bin of a number: bins of the same width between the least and the greatest number of all. The
# last one ends a bit later, because bins do not contain their end.
_BIN_SQL = """
toString([
    {low} + ({high} - {low}) / {count} * {bin},
    {low} + ({high} - {low}) / {count} * ({bin} + 1) + if({bin} + 1 = {count}, 0.01, 0)
])
"""
_BIN_NUMBER_SQL = """
arrayCount(edge -> {number} >= {low} + ({high} - {low}) / {count} * edge, range(1, {count}))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakdownProperty:
    """With `bin_count`, the values are ranges of numbers; `bounds` are then the least and the
    greatest number of the events that are broken down."""

    name: str
    type: str
    group_type_index: int | None
    is_url: bool
    bin_count: int | None = None
    bounds: tuple[Expr, Expr] | None = None

    def build_value(self) -> Expr:
        """Build the value of an event, as text that is never null."""
        if self.bin_count is not None:
            return self._build_bin(self.bin_count)
        text: Expr = call("toString", self._build_raw())
        if self.is_url:
            text = _normalize_url(text)
        return call("ifNull", call("nullIf", text, constant("")), constant(NULL_LABEL))

    def build_number(self) -> Expr:
        """Build the value of an event as a finite number, or null."""
        number = call("toFloat", self._build_raw())
        return call("if", call("isFinite", number), number, constant(None))

    def _build_bin(self, bin_count: int) -> Expr:
        assert self.bounds is not None
        number, count = self.build_number(), constant(bin_count)
        low, high = self.bounds
        limits = {"low": low, "high": high, "count": count}
        bin = replace_placeholders(parse_expr(_BIN_NUMBER_SQL), {"number": number, **limits})
        label = replace_placeholders(parse_expr(_BIN_SQL), {"bin": bin, **limits})
        return call("if", call("isNull", number), constant(NULL_LABEL), label)

    def _build_raw(self) -> Expr:
        match self.type:
            case "person":
                return field("person", "properties", self.name)
            case "group":
                return field(f"group_{self.group_type_index}", "properties", self.name)
            case "session":
                return field("session", self.name)
            case "hogql":
                return parse_expr(self.name)
            case "event_metadata":
                return field(self.name)
        return field("properties", self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Breakdown:
    """`properties` or `cohorts`, of which a None stands for all users. With `is_list`, the client
    sent `breakdowns`, and each value is a list."""

    properties: Sequence[BreakdownProperty] = ()
    cohorts: Sequence[CohortId | None] = ()
    is_list: bool = False
    limit: int = DEFAULT_LIMIT
    hides_other: bool = False

    def build_value(self) -> Expr:
        """Build the value of an event: an array of texts."""
        return call("array", *(each.build_value() for each in self.properties))

    @property
    def has_bins(self) -> bool:
        return any(each.bin_count is not None for each in self.properties)

    def bind_bins(self, find_bounds: Callable[[Expr], tuple[Expr, Expr]]) -> "Breakdown":
        """Return the breakdown with the bounds of its numbers."""
        properties = [
            each
            if each.bin_count is None
            else replace(each, bounds=find_bounds(each.build_number()))
            for each in self.properties
        ]
        return replace(self, properties=properties)

    def read_value(self, value: Sequence[str]) -> Any:
        return list(value) if self.is_list else value[0]

    def read_plain_value(self, value: Sequence[str]) -> Any:
        """Return a value of a funnel or a retention, where a missing one is empty text."""
        return self.read_value(["" if each == NULL_LABEL else each for each in value])

    @property
    def other(self) -> Any:
        return [OTHER_LABEL] * len(self.properties) if self.is_list else OTHER_LABEL


def parse_breakdown(sent: Any, attr: str) -> Breakdown | None:
    """Parse `breakdownFilter`. None without a breakdown."""
    if not sent:
        return None
    check_storable(sent, attr)
    fields = QueryFields(sent, attr)
    fields.refuse_value("breakdown_path_cleaning", "Path cleaning is not supported.")
    limit = fields.integer("breakdown_limit")
    if limit is not None and not 1 <= limit <= MAX_LIMIT:
        detail = f"A number from 1 to {MAX_LIMIT} is required."
        raise Invalid(detail, attr=fields.attr("breakdown_limit"))
    bin_count = fields.number("breakdown_histogram_bin_count", 1, MAX_BINS)
    limit = limit or max(DEFAULT_LIMIT, bin_count or 0)
    hides_other = fields.boolean("breakdown_hide_other_aggregation")
    if several := fields.list_field("breakdowns"):
        if all(isinstance(each, dict) and each.get("type") == COHORT for each in several):
            ids = [each.get("property") for each in several]
            return Breakdown(cohorts=_parse_cohorts(ids, fields.attr("breakdowns")))
        if len(several) > MAX_BREAKDOWNS:
            detail = f"Expected at most {MAX_BREAKDOWNS} breakdowns."
            raise Invalid(detail, attr=fields.attr("breakdowns"))
        properties = [
            _parse_item(each, f"{fields.attr('breakdowns')}__{number}")
            for number, each in enumerate(several)
        ]
        return Breakdown(properties=properties, is_list=True, limit=limit, hides_other=hides_other)
    value = sent.get("breakdown")
    if value in (None, "", []):
        return None
    if fields.text("breakdown_type") == COHORT:
        return Breakdown(cohorts=_parse_cohorts(value, fields.attr("breakdown")))
    names = value if isinstance(value, list) else [value]
    properties = [
        replace(
            _build_property(
                each,
                fields.text("breakdown_type"),
                fields.integer("breakdown_group_type_index"),
                fields.boolean("breakdown_normalize_url"),
                attr=fields.attr("breakdown"),
            ),
            bin_count=bin_count,
        )
        for each in names
    ]
    return Breakdown(
        properties=properties, is_list=len(names) > 1, limit=limit, hides_other=hides_other
    )


def _parse_item(sent: Any, attr: str) -> BreakdownProperty:
    if not isinstance(sent, dict):
        raise Invalid("Expected an object.", attr=attr)
    fields = QueryFields(sent, attr)
    if fields.text("type") == COHORT:
        detail = "Cohorts are a breakdown of their own, without properties."
        raise Invalid(detail, attr=fields.attr("type"))
    found = _build_property(
        sent.get("property"),
        fields.text("type"),
        fields.integer("group_type_index"),
        fields.boolean("normalize_url"),
        attr=fields.attr("property"),
    )
    return replace(found, bin_count=fields.number("histogram_bin_count", 1, MAX_BINS))


def _build_property(
    name: Any, type: str, group_type_index: int | None, is_url: bool, *, attr: str
) -> BreakdownProperty:
    if not isinstance(name, str) or not name:
        raise Invalid("Expected the name of a property.", attr=attr)
    type = type or "event"
    if type not in TYPES:
        detail = (
            f'"{truncate(type)}" is not supported. Expected one of: {", ".join((*TYPES, COHORT))}.'
        )
        raise Invalid(detail, attr=f"{attr}_type", code="invalid_choice")
    if type == SESSION and name not in SESSION_KEYS:
        detail = f"Expected one of: {', '.join(SESSION_KEYS)}."
        raise Invalid(detail, attr=attr, code="invalid_choice")
    if type == "group" and (
        group_type_index is None or not 0 <= group_type_index < MAX_GROUP_TYPES
    ):
        detail = f"A group type from 0 to {MAX_GROUP_TYPES - 1} is required."
        raise Invalid(detail, attr=f"{attr}_group_type_index")
    return BreakdownProperty(name=name, type=type, group_type_index=group_type_index, is_url=is_url)


def _parse_cohorts(value: Any, attr: str) -> list[CohortId | None]:
    sent = value if isinstance(value, list) else [value]
    if len(sent) > DEFAULT_LIMIT:
        raise Invalid(f"Expected at most {DEFAULT_LIMIT} cohorts.", attr=attr)
    found: list[CohortId | None] = []
    for each in sent:
        if each in (ALL_USERS, "0", 0) and not isinstance(each, bool):
            found.append(None)
        elif isinstance(each, int | str) and not isinstance(each, bool) and str(each).isdecimal():
            found.append(CohortId(int(each)))
        else:
            raise Invalid('Expected the ids of cohorts, or "all".', attr=attr)
    return found


def name_cohort(id: CohortId | None, context: QueryContext, attr: str) -> str:
    if id is None:
        return "all users"
    if id not in context.cohorts:
        raise Invalid(f"Cohort {id} does not exist.", attr=attr)
    return context.cohorts[id].name


def _normalize_url(text: Expr) -> Expr:
    """Drop slashes, question marks and hashes at the end. What is left of "/" is "/"."""
    bare = call("replaceRegexpOne", text, constant(r"[\/?#]+$"), constant(""))
    is_root = call("and", call("empty", bare), call("notEmpty", text))
    return call("if", is_root, constant("/"), bare)
