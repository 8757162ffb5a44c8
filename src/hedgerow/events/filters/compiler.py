"""The compiler of the `properties` parameter: filters and groups of filters become one condition.

Persons, groups and cohorts become subqueries and not joins, so that events are still read in their
sort order and only as many as needed.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.events.filters.cohorts import CohortsById, select_members
from hedgerow.events.filters.columns import build_column_condition
from hedgerow.events.filters.conditions import QueryTime, build_condition, validate_operator
from hedgerow.events.filters.elements import build_element_condition
from hedgerow.filters.known_fields import EVENT_FILTER
from hedgerow.filters.operators import build_predicate
from hedgerow.filters.validate import raise_invalid
from hedgerow.filters.values import MISSING
from hedgerow.hogql.ast import Expr, SelectQuery
from hedgerow.hogql.builders import (
    all_of,
    any_of,
    call,
    constant,
    equals,
    field,
    in_subquery,
    negate,
    select_from,
)
from hedgerow.lib.text import parse_whole_number, truncate
from hedgerow.persons.model import MAX_GROUP_TYPES, CohortId
from hedgerow.projects.validation import check_known_fields

MAX_FILTERS = 200
MAX_DEPTH = 10
MAX_COHORTS = 50
# What a filter on a session can read.
SESSION_KEYS = (
    *("$session_duration", "$channel_type", "$is_bounce", "$pageview_count", "$screen_count"),
    *("$autocapture_count", "$num_uniq_urls", "$entry_current_url", "$end_current_url"),
    *("$entry_pathname", "$end_pathname", "$entry_hostname", "$entry_referring_domain"),
    *(f"$entry_utm_{name}" for name in ("source", "medium", "campaign", "term", "content")),
)
COHORT_TYPES = ("cohort", "static-cohort", "precalculated-cohort")
FILTER_TYPES = (
    "event, feature, person, group, session, cohort, static-cohort, precalculated-cohort, "
    "element, event_metadata, hogql"
)

# A key that JSON never escapes.
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_$. -]+")

ParseExpression = Callable[[str], Expr]


class FilterCompiler:
    """Compiles filters. `parse` parses a HogQL expression; `cohorts` are the cohorts of the
    project."""

    def __init__(self, time: QueryTime, cohorts: CohortsById, parse: ParseExpression) -> None:
        self._time = time
        self._cohorts = cohorts
        self._parse = parse
        self._count = 0
        # Filters can name a cohort many times.
        self._members: dict[CohortId, SelectQuery] = {}
        self._compilers: dict[str, Callable[[str, Mapping[str, Any], str], Expr]] = {
            "event": self._compile_event_filter,
            "feature": self._compile_event_filter,
            "person": self._compile_person_filter,
            "group": self._compile_group_filter,
            "session": self._compile_session_filter,
            "element": lambda key, sent, place: build_element_condition(key, sent, place, time),
            "event_metadata": lambda key, sent, place: build_column_condition(
                key, sent, place, time
            ),
            "hogql": self._compile_hogql,
        }

    def compile(self, sent: Any, place: str = "properties") -> Expr:
        """Compile one filter or group, or a list of them that must all match. Raises Invalid also
        for an unknown field: a misspelled one would match other events."""
        nodes = sent if isinstance(sent, list) else [sent]
        check_known_fields(nodes, EVENT_FILTER, place)
        return all_of(
            [self._compile_node(each, f"{place}[{n}]", 0) for n, each in enumerate(nodes)]
        )

    def _compile_node(self, node: Any, place: str, depth: int) -> Expr:
        self._count += 1
        if self._count > MAX_FILTERS or depth > MAX_DEPTH:
            detail = f"Expected at most {MAX_FILTERS} filters in at most {MAX_DEPTH} levels."
            raise_invalid("properties", detail)
        if not isinstance(node, dict):
            raise_invalid(place, "Expected an object.")
        if "values" not in node:
            return self._compile_filter(node, place)
        if not isinstance(node["values"], list):
            raise_invalid(f"{place}.values", "A list is required.", "not_a_list")
        kind = str(node.get("type")).upper()
        if kind not in ("AND", "OR"):
            raise_invalid(f"{place}.type", "AND or OR is required.", "invalid_choice")
        parts = [
            self._compile_node(each, f"{place}.values[{n}]", depth + 1)
            for n, each in enumerate(node["values"])
        ]
        return any_of(parts) if parts and kind == "OR" else all_of(parts)

    def _compile_filter(self, filter: Mapping[str, Any], place: str) -> Expr:
        kind = filter.get("type") or "event"
        if kind in COHORT_TYPES:
            return self._compile_cohort_filter(filter, place)
        key = filter.get("key")
        if not isinstance(key, str) or not key:
            raise_invalid(f"{place}.key", "This field is required.", "required")
        build = self._compilers.get(kind) if isinstance(kind, str) else None
        if build is None:
            detail = f'Unknown filter type "{truncate(kind)}". Expected one of: {FILTER_TYPES}.'
            raise_invalid(f"{place}.type", detail, "invalid_choice")
        return build(key, filter, place)

    def _compile_condition(self, text: Expr, filter: Mapping[str, Any], place: str) -> Expr:
        operator = validate_operator(filter, place)
        return build_condition(text, operator, filter.get("value"), self._time)

    def _compile_event_filter(self, key: str, filter: Mapping[str, Any], place: str) -> Expr:
        condition = self._compile_condition(field("properties", key), filter, place)
        if not _PLAIN_KEY.fullmatch(key) or self._matches_missing(filter, place):
            return condition
        return all_of([call("_mayHaveKey", field("properties"), constant(key)), condition])

    def _compile_person_filter(self, key: str, filter: Mapping[str, Any], place: str) -> Expr:
        condition = self._compile_condition(field("properties", key), filter, place)
        return self._compile_owner_filter(
            filter, place, condition, lambda holds: match_events_of_persons(_select_persons(holds))
        )

    def _compile_group_filter(self, key: str, filter: Mapping[str, Any], place: str) -> Expr:
        index = filter.get("group_type_index")
        if (
            not isinstance(index, int)
            or isinstance(index, bool)
            or not 0 <= index < MAX_GROUP_TYPES
        ):
            detail = f"A number from 0 to {MAX_GROUP_TYPES - 1} is required."
            raise_invalid(f"{place}.group_type_index", detail)
        matches_type = equals(field("group_type_index"), index)
        condition = self._compile_condition(field("properties", key), filter, place)

        def in_groups(holds: Expr) -> Expr:
            groups = select_from("groups", field("group_key"), all_of([matches_type, holds]))
            return in_subquery(field(f"$group_{index}"), groups)

        return self._compile_owner_filter(filter, place, condition, in_groups)

    def _compile_session_filter(self, key: str, filter: Mapping[str, Any], place: str) -> Expr:
        if key not in SESSION_KEYS:
            detail = f"Expected one of: {', '.join(SESSION_KEYS)}."
            raise_invalid(f"{place}.key", detail, "invalid_choice")
        condition = self._compile_condition(call("toString", field(key)), filter, place)

        def in_sessions(holds: Expr) -> Expr:
            sessions = select_from("sessions", field("session_id"), holds)
            return in_subquery(field("$session_id"), sessions)

        return self._compile_owner_filter(filter, place, condition, in_sessions)

    def _compile_owner_filter(
        self,
        filter: Mapping[str, Any],
        place: str,
        condition: Expr,
        events_where: Callable[[Expr], Expr],
    ) -> Expr:
        """Compile a filter on a person or group. Some operators match a missing property, and then
        also events without an owner."""
        if self._matches_missing(filter, place):
            return negate(events_where(negate(condition)))
        return events_where(condition)

    def _matches_missing(self, filter: Mapping[str, Any], place: str) -> bool:
        """Return whether the operator matches a missing property."""
        operator, value = validate_operator(filter, place), filter.get("value")
        return value == [] or build_predicate(operator, value, self._time.zone)(
            MISSING, self._time.now
        )

    def _compile_cohort_filter(self, filter: Mapping[str, Any], place: str) -> Expr:
        operator = filter.get("operator")
        if operator not in (None, "in", "not_in", "exact", "is_not"):
            detail = "Expected one of: in, not_in."
            raise_invalid(f"{place}.operator", detail, "unsupported_operator")
        sent = filter.get("value")
        options = sent if isinstance(sent, list) else [sent]
        if len(options) > MAX_COHORTS:
            raise_invalid(f"{place}.value", f"Expected at most {MAX_COHORTS} cohorts.")
        ids = dict.fromkeys(self._parse_cohort_id(each, f"{place}.value") for each in options)
        parts = [match_events_of_persons(self._select_members(id, f"{place}.value")) for id in ids]
        return negate(any_of(parts)) if operator in ("not_in", "is_not") else any_of(parts)

    def _parse_cohort_id(self, sent: Any, place: str) -> CohortId:
        id = parse_whole_number(sent) if isinstance(sent, str) else sent
        if not isinstance(id, int) or isinstance(id, bool):
            raise_invalid(place, "Expected the id of a cohort.")
        return CohortId(id)

    def _select_members(self, id: CohortId, place: str) -> SelectQuery:
        if id not in self._members:
            try:
                self._members[id] = select_members(id, self._cohorts, self._time)
            except Invalid as error:
                raise Invalid(error.detail, attr=place, code=error.code) from None
        return self._members[id]

    def _compile_hogql(self, text: str, _: Mapping[str, Any], place: str) -> Expr:
        try:
            return self._parse(text)
        except Invalid as error:
            raise Invalid(error.detail, attr=f"{place}.key", code=error.code) from None


def match_events_of_persons(persons: SelectQuery) -> Expr:
    """Match the events whose distinct id currently belongs to one of these persons."""
    ids = select_from(
        "person_distinct_ids", field("distinct_id"), in_subquery(field("person_id"), persons)
    )
    return in_subquery(field("distinct_id"), ids)


def _select_persons(holds: Expr) -> SelectQuery:
    return select_from("persons", field("id"), holds)
