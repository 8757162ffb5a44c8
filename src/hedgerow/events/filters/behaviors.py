"""Behavioral filters as queries of events.

`persons/behaviors/` keeps the same occurrences for flags; both must find the same persons.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.events.filters.conditions import QueryTime, build_condition
from hedgerow.filters.operators import Operator
from hedgerow.hogql.ast import Compare, Expr, FunctionCall, Join, Lambda, SelectQuery
from hedgerow.hogql.builders import (
    all_of,
    any_of,
    call,
    compare,
    constant,
    equals,
    false_if_null,
    field,
)
from hedgerow.lib.dates import EPOCH
from hedgerow.persons.behaviors.filters import (
    SEQUENCE_DEPTH,
    BehavioralFilter,
    BehaviorKind,
    iterate_behavioral_filters,
    parse_behavioral_filter,
)
from hedgerow.persons.behaviors.matcher import CURRENT_URL, build_definition
from hedgerow.persons.model import Cohort

# The steps of the action that a filter names. The query context adds them to cohorts.
STEPS, NEXT_STEPS = "steps", "seq_steps"
_COUNTS = {
    "gte": Compare.GT_EQ,
    "gt": Compare.GT,
    "lte": Compare.LT_EQ,
    "lt": Compare.LT,
    "exact": Compare.EQ,
}
_MICROS = call("toUnixTimestamp64Micro", field("timestamp"))


def select_behavior(filter: Mapping[str, Any], time: QueryTime) -> SelectQuery:
    """Select the ids of the persons that a behavioral filter matches."""
    plain = {name: value for name, value in filter.items() if name not in (STEPS, NEXT_STEPS)}
    try:
        parsed = parse_behavioral_filter(plain)
        event = _match_event(parsed, filter.get(STEPS), is_next=False, time=time)
        if parsed.kind is BehaviorKind.SEQUENCE:
            second = _match_event(parsed, filter.get(NEXT_STEPS), is_next=True, time=time)
            return _select_sequence(parsed, event, second, time)
    except Invalid as error:
        raise Invalid(f"The cohort cannot be used. {error.detail}", code="bad_cohort") from None
    start, now = parsed.window.find_start(time.now), time.now
    match parsed.kind:
        case BehaviorKind.FIRST_TIME:
            first = call("min", field("timestamp"))
            having = _is_between(first, start, now)
            return _select_persons(event, having)
        case BehaviorKind.STOPPED:
            last = call("max", field("timestamp"))
            return _select_persons(
                all_of([event, _is_between(field("timestamp"), start, now)]),
                compare(last, Compare.LT_EQ, constant(now - parsed.within)),
            )
    having = compare(call("count"), _COUNTS[parsed.operator], constant(parsed.count))
    return _select_persons(all_of([event, _is_between(field("timestamp"), start, now)]), having)


def build_behavior_condition(definition: Mapping[str, Any], time: QueryTime) -> Expr:
    """Match the events of a behavior."""
    parts = [_build_filter(each, time) for each in definition["filters"]]
    if "steps" in definition:
        parts.insert(0, any_of([_build_step(each, time) for each in definition["steps"]]))
    else:
        parts.insert(0, equals(field("event"), definition["event"]))
    if until := definition.get("until"):
        limit = constant(datetime.fromisoformat(until))
        parts.append(compare(field("timestamp"), Compare.LT_EQ, limit))
    return all_of(parts)


def add_action_steps(cohort: Cohort, steps: Mapping[str, Any]) -> Cohort:
    """Return the cohort with the steps of its actions, by the ids of actions as text."""
    if not names_actions(cohort):
        return cohort
    return replace(cohort, definition=_add_steps(cohort.definition, steps))


def names_actions(cohort: Cohort) -> bool:
    """Whether a cohort counts the events of an action."""
    return any(map(_names_action, iterate_behavioral_filters(cohort.definition)))


def _names_action(filter: Mapping[str, Any]) -> bool:
    return "actions" in (filter.get("event_type"), filter.get("seq_event_type"))


def _add_steps(node: Any, steps: Mapping[str, Any]) -> Any:
    if isinstance(node, Mapping) and isinstance(node.get("values"), list):
        return {**node, "values": [_add_steps(each, steps) for each in node["values"]]}
    if not isinstance(node, Mapping) or not _names_action(node):
        return node
    found = {STEPS: steps.get(str(node.get("key")), [])}
    return {**node, **found, NEXT_STEPS: steps.get(str(node.get("seq_event")), [])}


def _match_event(filter: BehavioralFilter, steps: Any, *, is_next: bool, time: QueryTime) -> Expr:
    event = filter.next if is_next else filter.event
    assert event is not None
    return build_behavior_condition(build_definition(event, steps or []), time)


def _is_between(moment: Expr, start: datetime, end: datetime) -> Expr:
    """The start is not part of the window, its end is."""
    return all_of(
        [
            compare(moment, Compare.GT, constant(start)),
            compare(moment, Compare.LT_EQ, constant(end)),
        ]
    )


def _select_persons(where: Expr, having: Expr) -> SelectQuery:
    return SelectQuery(
        select=[field("person_id")],
        source=Join(table=field("events")),
        where=where,
        group_by=[field("person_id")],
        having=having,
    )


def _select_sequence(
    filter: BehavioralFilter, first: Expr, second: Expr, time: QueryTime
) -> SelectQuery:
    """Select the persons with a first event that is followed by a second one in time, among the
    latest ones of each."""
    start = (filter.window.find_start(time.now) - EPOCH) // timedelta(microseconds=1)
    longest = filter.within // timedelta(microseconds=1)
    a, b = field("a"), field("b")
    follows = all_of(
        [
            compare(b, Compare.GT, a),
            compare(b, Compare.LT_EQ, call("plus", a, constant(longest))),
        ]
    )
    is_followed = call("arrayExists", Lambda(args=("b",), expr=follows), _take_latest(second))
    matches = all_of([compare(a, Compare.GT, constant(start)), is_followed])
    having = call("arrayExists", Lambda(args=("a",), expr=matches), _take_latest(first))
    is_past = compare(field("timestamp"), Compare.LT_EQ, constant(time.now))
    return _select_persons(all_of([any_of([first, second]), is_past]), having)


def _take_latest(condition: Expr) -> Expr:
    """Return the latest times of the events that match, in microseconds since 1970."""
    earliest_last = FunctionCall(
        name="groupArraySortedIf",
        params=[constant(SEQUENCE_DEPTH)],
        args=[call("negate", _MICROS), condition],
    )
    time = call("negate", field("t"))
    return call("arrayMap", Lambda(args=("t",), expr=time), earliest_last)


def _build_filter(filter: Mapping[str, Any], time: QueryTime) -> Expr:
    text = field("properties", filter["key"])
    return build_condition(text, Operator(filter["operator"]), filter.get("value"), time)


def _build_step(step: Mapping[str, Any], time: QueryTime) -> Expr:
    parts = [_build_filter(each, time) for each in step["properties"]]
    if step["event"]:
        parts.insert(0, equals(field("event"), step["event"]))
    if step["url"]:
        parts.append(_match_url(step, time))
    return all_of(parts)


def _match_url(step: Mapping[str, Any], time: QueryTime) -> Expr:
    url = field("properties", CURRENT_URL)
    if step["url_matching"] == "contains":
        pattern = constant(f"%{step['url']}%")
        return false_if_null(compare(url, Compare.LIKE, pattern))
    operator = Operator.EXACT if step["url_matching"] == "exact" else Operator.REGEX
    return build_condition(url, operator, step["url"], time)
