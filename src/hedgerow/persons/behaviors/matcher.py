"""Find the tracked behaviors that a processed event belongs to. Pure.

`events/filters/behaviors.py` builds the same conditions for the event store.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.filters.operators import Operator, build_predicate
from hedgerow.filters.values import MISSING, as_text
from hedgerow.persons.behaviors.filters import TrackedEvent, check_event_filter
from hedgerow.persons.behaviors.model import Behavior, BehaviorId

EventPredicate = Callable[[str, Mapping[str, Any]], bool]

CURRENT_URL = "$current_url"
# Larger numbers have no unique text form.
MAX_PLAIN_INTEGER = 10**15
_ELEMENT_FIELDS = ("text", "href", "selector", "tag_name")
_URL_OPERATORS = {"exact": Operator.EXACT, "regex": Operator.REGEX}
_TIME_INDEPENDENT = datetime(1970, 1, 1, tzinfo=UTC)


def build_definition(event: TrackedEvent, steps: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what a behavior matches, to be stored with it. `steps` are those of its action."""
    definition: dict[str, Any] = {"filters": list(event.filters)}
    if event.until is not None:
        definition["until"] = event.until.isoformat()
    if event.event_type == "events":
        return definition | {"event": event.key}
    return definition | {"steps": [_read_step(step, event.key) for step in steps]}


def _read_step(step: Mapping[str, Any], action: str) -> dict[str, Any]:
    """Return the parts of an action's step that have an effect. Raises Invalid for one that needs
    more than the event."""
    used = [name for name in _ELEMENT_FIELDS if step.get(name)]
    if used:
        raise Invalid(
            f"Action {action} matches elements of pages ({', '.join(used)}), which cohorts do not "
            "support. Use an action with event names, URLs and properties of events.",
            attr="filters.properties",
            code="not_supported",
        )
    place = f"Action {action}: properties"
    return {
        "event": step.get("event") or None,
        "url": step.get("url") or None,
        "url_matching": step.get("url_matching") or "contains",
        "properties": [
            check_event_filter(each, f"{place}[{number}]")
            for number, each in enumerate(step.get("properties") or ())
        ],
    }


class BehaviorMatcher:
    """The tracked behaviors of a project."""

    def __init__(self, behaviors: Iterable[Behavior]) -> None:
        self._by_event: defaultdict[str, list[_Compiled]] = defaultdict(list)
        self._of_any_event: list[_Compiled] = []
        self.depths: dict[BehaviorId, int] = {}
        for behavior in behaviors:
            self.depths[behavior.id] = behavior.depth
            compiled = _compile(behavior)
            names = list_event_names(behavior.definition)
            if names is None:
                self._of_any_event.append(compiled)
            for name in names or ():
                self._by_event[name].append(compiled)

    def find(
        self, name: str, properties: Mapping[str, Any], timestamp: datetime
    ) -> list[BehaviorId]:
        """Return the behaviors that an event belongs to."""
        candidates = self._by_event.get(name, ())
        return [
            id
            for id, matches, until in (*candidates, *self._of_any_event)
            if (until is None or timestamp <= until) and matches(name, properties)
        ]


_Compiled = tuple[BehaviorId, EventPredicate, datetime | None]


def list_event_names(definition: Mapping[str, Any]) -> set[str] | None:
    """Return the names of the events that a behavior can match, None for any name."""
    if "steps" not in definition:
        return {definition["event"]}
    names = {step["event"] for step in definition["steps"]}
    return None if None in names else names


def _compile(behavior: Behavior) -> _Compiled:
    definition = behavior.definition
    filters = [_compile_filter(each) for each in definition["filters"]]
    until = definition.get("until")
    limit = datetime.fromisoformat(until) if until else None
    if "steps" not in definition:
        return behavior.id, lambda _, properties: _match_all(filters, properties), limit
    steps = [_compile_step(step) for step in definition["steps"]]

    def matches(name: str, properties: Mapping[str, Any]) -> bool:
        return any(step(name, properties) for step in steps) and _match_all(filters, properties)

    return behavior.id, matches, limit


def _compile_step(step: Mapping[str, Any]) -> EventPredicate:
    filters = [_compile_filter(each) for each in step["properties"]]
    if step["url"]:
        filters.append((CURRENT_URL, _compile_url(step["url"], step["url_matching"])))
    name = step["event"]

    def matches(event: str, properties: Mapping[str, Any]) -> bool:
        return (name is None or name == event) and _match_all(filters, properties)

    return matches


_ValueTest = Callable[[Any], bool]
_Filter = tuple[str, _ValueTest]


def _match_all(filters: Sequence[_Filter], properties: Mapping[str, Any]) -> bool:
    for key, test in filters:
        value = properties.get(key, MISSING)
        # For filters on events, null is a missing value.
        if not test(MISSING if value is None else value):
            return False
    return True


def _compile_filter(filter: Mapping[str, Any]) -> _Filter:
    operator, value = Operator(filter["operator"]), filter.get("value")
    return filter["key"], _build_test(operator, value)


def _build_test(operator: Operator, expected: Any) -> _ValueTest:
    """Unlike filters on persons, filters on events compare exactly."""
    options = expected if isinstance(expected, list) else [expected]
    if operator in (Operator.EXACT, Operator.IS_NOT):
        texts = frozenset(map(_write_text, options))
        is_exact = operator is Operator.EXACT
        if not options:
            return lambda value: True
        return lambda value: (value is not MISSING and _write_text(value) in texts) is is_exact
    matches = build_predicate(operator, expected)
    return lambda value: matches(value, _TIME_INDEPENDENT)


def _write_text(value: Any) -> str:
    """Return the text of a value as the event store compares it."""
    if isinstance(value, float) and value.is_integer() and abs(value) < MAX_PLAIN_INTEGER:
        return str(int(value))
    return as_text(value)


def _compile_url(url: str, matching: str) -> _ValueTest:
    """As in PostHog, `contains` has the wildcards of LIKE."""
    operator = _URL_OPERATORS.get(matching)
    if operator is not None:
        return _build_test(operator, url)
    parts = [
        re.compile("".join("." if each == "_" else re.escape(each) for each in part), re.DOTALL)
        for part in url.split("%")
    ]

    def contains(value: Any) -> bool:
        """Find the parts one after the other. Each takes linear time."""
        text, start = "" if value is MISSING else as_text(value), 0
        for part in parts:
            found = part.search(text, start)
            if found is None:
                return False
            start = found.end()
        return value is not MISSING

    return contains
