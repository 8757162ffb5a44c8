"""Behavioral filters: what is accepted, and what is refused by name."""

from typing import Any

import pytest

from hedgerow.errors import Invalid
from hedgerow.persons.behaviors.filters import (
    DEPTHS,
    list_references,
    parse_behavioral_filter,
)

DID = {
    "type": "behavioral",
    "event_type": "events",
    "key": "paid",
    "value": "performed_event",
    "time_value": 30,
    "time_interval": "day",
}
MANY = {**DID, "value": "performed_event_multiple", "operator": "gte", "operator_value": 3}
THEN = {
    **DID,
    "value": "performed_event_sequence",
    "seq_event": "b",
    "seq_event_type": "events",
    "seq_time_value": 1,
    "seq_time_interval": "hour",
}


@pytest.mark.parametrize(
    ("operator", "count", "depth"),
    [("gte", 1, 1), ("gte", 10, 10), ("exact", 10, 100), ("lt", 10, 10), ("lte", 1000, 1001)],
)
def test_depth(operator: str, count: int, depth: int) -> None:
    found = parse_behavioral_filter({**MANY, "operator": operator, "operator_value": count})
    assert found.event.depth == depth
    assert depth in DEPTHS


def test_equal_events_are_counted_once() -> None:
    same = {**MANY, "operator_value": "7", "time_value": 5, "negation": True}
    definition = {"type": "AND", "values": [MANY, {"type": "OR", "values": [same]}, THEN]}
    assert len(list_references(definition)) == 3
    other = {**MANY, "event_filters": [{"key": "a", "value": 1}]}
    assert len(list_references({"type": "AND", "values": [MANY, other]})) == 2
    assert list_references({"type": "AND", "values": [{"type": "behavioral"}]}) == set()


@pytest.mark.parametrize(
    ("change", "attr", "words"),
    [
        ({"value": "missed_event_sequence"}, "value", "with `negation`"),
        ({"value": "performed_event_regularly"}, "value", "Expected one of: performed_event,"),
        ({"value": "restarted_performing_event"}, "value", "not supported"),
        ({"value": ["performed_event"]}, "value", "is no behavior"),
        ({"event_type": "clicks"}, "event_type", "`events` or `actions`"),
        ({"key": ""}, "key", "required"),
        ({"key": "x" * 201}, "key", "200 characters"),
        ({"event_type": "actions", "key": "buys"}, "key", "whole number"),
        ({"time_value": 0}, "time_value", "from 1 to"),
        ({"time_value": True}, "time_value", "from 1 to"),
        ({"time_value": 10**9}, "time_value", "from 1 to"),
        ({"time_interval": "decade"}, "time_interval", "minute, hour, day"),
        ({"explicit_datetime": "soon"}, "explicit_datetime", "or a time ago such as -7d"),
        ({"explicit_datetime": "-9999y"}, "explicit_datetime", "too long ago"),
        ({"explicit_datetime_to": "2026-01-01"}, "explicit_datetime", "required"),
        (
            {"explicit_datetime": "-30d", "explicit_datetime_to": "-7d"},
            "explicit_datetime_to",
            "A date such as",
        ),
        ({"event_filters": "x"}, "event_filters", "list"),
        ({"event_filters": [{"key": "a"}] * 21}, "event_filters", "at most 20"),
        (
            {"event_filters": [{"key": "a", "value": "b", "type": "person"}]},
            "event_filters[0].type",
            "properties of the event only",
        ),
        (
            {"event_filters": [{"key": "a", "value": "-7d", "operator": "is_date_after"}]},
            "event_filters[0].operator",
            "Dates",
        ),
        (
            {"event_filters": [{"key": "a", "value": "(?=x)", "operator": "regex"}]},
            "event_filters[0].value",
            "Lookaround",
        ),
        ({"evnt_type": "events"}, "evnt_type", "Did you mean `event_type`?"),
    ],
)
def test_refusals_name_the_field(change: dict[str, Any], attr: str, words: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse_behavioral_filter({**DID, **change}, "f")
    assert refused.value.attr == f"f.{attr}"
    assert words in refused.value.detail


@pytest.mark.parametrize(
    ("change", "attr"),
    [
        ({"operator": "between"}, "operator"),
        ({"operator_value": 1001}, "operator_value"),
        ({"operator_value": None}, "operator_value"),
    ],
)
def test_counts_are_checked(change: dict[str, Any], attr: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse_behavioral_filter({**MANY, **change}, "f")
    assert refused.value.attr == f"f.{attr}"


@pytest.mark.parametrize("missing", ["seq_event", "seq_event_type", "seq_time_value"])
def test_sequences_are_checked(missing: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse_behavioral_filter({**THEN, missing: None}, "f")
    assert refused.value.attr == f"f.{missing}"
