"""The `properties` of a request: filters and groups of filters, as one question to the event store.

Persons, groups and cohorts are asked for by subqueries and not by joins: the events are then still
read in their order, and only as many as are needed.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.events.cohorts import Cohorts, members
from hedgerow.events.columns import column_condition
from hedgerow.events.conditions import Moment, checked_operator, condition
from hedgerow.events.element_filters import element_condition
from hedgerow.events.expressions import (
    all_of,
    any_of,
    call,
    compared,
    equal,
    field,
    not_,
    select_from,
    value,
    within,
)
from hedgerow.filters.operators import predicate
from hedgerow.filters.rules import refuse
from hedgerow.filters.values import MISSING
from hedgerow.hogql.ast import Compare, Expr, SelectQuery
from hedgerow.lib.text import cut_short, whole_number
from hedgerow.persons.model import MAX_GROUP_TYPES, CohortId

MAX_FILTERS = 200
MAX_DEPTH = 10
COHORT_TYPES = ("cohort", "static-cohort", "precalculated-cohort")
TYPES = (
    "event, feature, person, group, cohort, static-cohort, precalculated-cohort, element, "
    "event_metadata and hogql"
)

# A key that JSON shows as it is, whoever wrote it.
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_$. -]+")

Parse = Callable[[str], Expr]


class Filters:
    """`parse` reads a HogQL expression; `cohorts` are those of the project."""

    def __init__(self, at: Moment, cohorts: Cohorts, parse: Parse) -> None:
        self._at = at
        self._cohorts = cohorts
        self._parse = parse
        self._count = 0
        self._of_type: dict[str, Callable[[str, Mapping[str, Any], str], Expr]] = {
            "event": self._of_event,
            "feature": self._of_event,
            "person": self._of_person,
            "group": self._of_group,
            "element": lambda key, sent, place: element_condition(key, sent, place, at),
            "event_metadata": lambda key, sent, place: column_condition(key, sent, place, at),
            "hogql": self._hogql,
        }

    def all(self, sent: Any, place: str = "properties") -> Expr:
        """A list of filters and groups, all of which must hold, or one of them."""
        nodes = sent if isinstance(sent, list) else [sent]
        return all_of([self._node(each, f"{place}[{n}]", 0) for n, each in enumerate(nodes)])

    def _node(self, node: Any, place: str, depth: int) -> Expr:
        self._count += 1
        if self._count > MAX_FILTERS or depth > MAX_DEPTH:
            detail = f"At most {MAX_FILTERS} filters, {MAX_DEPTH} levels deep, are possible."
            refuse("properties", detail)
        if not isinstance(node, dict):
            refuse(place, "An object is required.")
        if "values" not in node:
            return self._filter(node, place)
        if not isinstance(node["values"], list):
            refuse(f"{place}.values", "A list is required.", "not_a_list")
        kind = str(node.get("type")).upper()
        if kind not in ("AND", "OR"):
            refuse(f"{place}.type", "AND or OR is required.", "invalid_choice")
        parts = [
            self._node(each, f"{place}.values[{n}]", depth + 1)
            for n, each in enumerate(node["values"])
        ]
        return any_of(parts) if parts and kind == "OR" else all_of(parts)

    def _filter(self, filter: Mapping[str, Any], place: str) -> Expr:
        kind = filter.get("type") or "event"
        if kind in COHORT_TYPES:
            return self._in_cohort(filter, place)
        key = filter.get("key")
        if not isinstance(key, str) or not key:
            refuse(f"{place}.key", "This field is required.", "required")
        build = self._of_type.get(kind) if isinstance(kind, str) else None
        if build is None:
            detail = f'There are no filters of type "{cut_short(kind)}" on events, only {TYPES}.'
            refuse(f"{place}.type", detail, "invalid_choice")
        return build(key, filter, place)

    def _asked(self, text: Expr, filter: Mapping[str, Any], place: str) -> Expr:
        operator = checked_operator(filter, place)
        return condition(text, operator, filter.get("value"), self._at)

    def _of_event(self, key: str, filter: Mapping[str, Any], place: str) -> Expr:
        asked = self._asked(field("properties", key), filter, place)
        if not _PLAIN_KEY.fullmatch(key) or self._holds_without(filter, place):
            return asked
        # Whether a text occurs is told far sooner than what a key stands for, and most events of
        # which something rare is asked do not even have the key.
        mentioned = call("position", field("properties"), value(f'"{key}"'))
        return all_of([compared(mentioned, Compare.GT, value(0)), asked])

    def _of_person(self, key: str, filter: Mapping[str, Any], place: str) -> Expr:
        asked = self._asked(field("properties", key), filter, place)
        return self._of_owner(filter, place, asked, lambda holds: events_of(_persons(holds)))

    def _of_group(self, key: str, filter: Mapping[str, Any], place: str) -> Expr:
        index = filter.get("group_type_index")
        if (
            not isinstance(index, int)
            or isinstance(index, bool)
            or not 0 <= index < MAX_GROUP_TYPES
        ):
            detail = f"A number from 0 to {MAX_GROUP_TYPES - 1} is required."
            refuse(f"{place}.group_type_index", detail)
        own = equal(field("group_type_index"), index)
        asked = self._asked(field("properties", key), filter, place)

        def in_groups(holds: Expr) -> Expr:
            groups = select_from("groups", field("group_key"), all_of([own, holds]))
            return within(field(f"$group_{index}"), groups)

        return self._of_owner(filter, place, asked, in_groups)

    def _of_owner(
        self,
        filter: Mapping[str, Any],
        place: str,
        asked: Expr,
        events_where: Callable[[Expr], Expr],
    ) -> Expr:
        """Whose owner is not known has no properties, which some operators take for an answer."""
        if self._holds_without(filter, place):
            return not_(events_where(not_(asked)))
        return events_where(asked)

    def _holds_without(self, filter: Mapping[str, Any], place: str) -> bool:
        """Whether the operator holds for a property that is not there."""
        operator, wanted = checked_operator(filter, place), filter.get("value")
        return wanted == [] or predicate(operator, wanted, self._at.zone)(MISSING, self._at.now)

    def _in_cohort(self, filter: Mapping[str, Any], place: str) -> Expr:
        operator = filter.get("operator")
        if operator not in (None, "in", "not_in", "exact", "is_not"):
            detail = "A cohort filter is in or not_in."
            refuse(f"{place}.operator", detail, "unsupported_operator")
        sent = filter.get("value")
        parts = [
            events_of(self._members(each, f"{place}.value"))
            for each in (sent if isinstance(sent, list) else [sent])
        ]
        return not_(any_of(parts)) if operator in ("not_in", "is_not") else any_of(parts)

    def _members(self, sent: Any, place: str) -> SelectQuery:
        id = whole_number(sent) if isinstance(sent, str) else sent
        if not isinstance(id, int) or isinstance(id, bool):
            refuse(place, "The id of a cohort is required.")
        try:
            return members(CohortId(id), self._cohorts, self._at)
        except Invalid as error:
            raise Invalid(error.detail, attr=place, code=error.code) from None

    def _hogql(self, text: str, _: Mapping[str, Any], place: str) -> Expr:
        try:
            return self._parse(text)
        except Invalid as error:
            raise Invalid(error.detail, attr=f"{place}.key", code=error.code) from None


def events_of(persons: SelectQuery) -> Expr:
    """Whether an event is of one of these persons, by whose its distinct id is today."""
    ids = select_from(
        "person_distinct_ids", field("distinct_id"), within(field("person_id"), persons)
    )
    return within(field("distinct_id"), ids)


def _persons(holds: Expr) -> SelectQuery:
    return select_from("persons", field("id"), holds)
