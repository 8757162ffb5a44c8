"""Parsing of listing parameters."""

from datetime import UTC, datetime
from typing import Any

import pytest

from hedgerow.errors import Invalid
from hedgerow.events.listing.parameters import MAX_EXPRESSIONS
from hedgerow.events.listing.query import MAX_CLOCK_SKEW, MAX_LIMIT, EventsQuery, parse_events_query

NOW = datetime(2026, 3, 30, 10, 20, 30, tzinfo=UTC)


def parse(*, has_cap: bool = True, **sent: Any) -> EventsQuery:
    def values(name: str) -> list[str]:
        found = sent.get(name, [])
        return [found] if isinstance(found, str) else found

    return parse_events_query(values, NOW, UTC, has_cap=has_cap)


def test_defaults_select_the_newest_hundred() -> None:
    query = parse()
    assert (query.after, query.before, query.limit, query.offset) == (
        None,
        NOW + MAX_CLOCK_SKEW,
        100,
        0,
    )
    assert (query.select, query.include_person, query.is_by_time) == (None, True, True)
    assert not query.is_ascending
    assert not any(query.documents)


@pytest.mark.parametrize(
    ("sent", "limit"),
    [("", 100), ("5", 5), ("10000", 10_000), ("10001", MAX_LIMIT), ("9" * 25, MAX_LIMIT)],
)
def test_page_is_bounded(sent: str, limit: int) -> None:
    assert parse(limit=sent).limit == limit


def test_streamed_listing_is_unbounded() -> None:
    assert parse(has_cap=False).limit is None
    assert parse(has_cap=False, limit="1000000").limit == 1_000_000


def test_last_value_of_a_repeated_parameter_counts() -> None:
    assert parse(limit=["1", "2", ""], event=["a", "b"]).limit == 2
    assert parse(event=["a", "b"]).event == "b"


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        ([], None),
        ([""], None),
        (["[]"], ["*"]),
        (["event"], ["event"]),
        (["event", "count()"], ["event", "count()"]),
        (['["event", "count() -- Total"]'], ["event", "count() -- Total"]),
        (["a", ' ["b", "c"]'], ["a", "b", "c"]),
    ],
)
def test_select_accepts_repetition_and_lists(sent: list[str], expected: Any) -> None:
    assert parse(select=sent).select == expected


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        (['{"key": "a"}'], [{"key": "a"}]),
        (['[{"key": "a"}, {"key": "b"}]'], [{"key": "a"}, {"key": "b"}]),
        (['{"key": "a"}', '[{"key": "b"}]'], [{"key": "a"}, {"key": "b"}]),
        (['{"type": "OR", "values": []}'], [{"type": "OR", "values": []}]),
    ],
)
def test_filters_accept_repetition_and_lists(sent: list[str], expected: Any) -> None:
    assert parse(properties=sent).properties == expected


@pytest.mark.parametrize(
    ("sent", "is_by_time", "is_ascending"),
    [
        ('["timestamp"]', True, True),
        ('["-timestamp"]', True, False),
        ("timestamp ASC", True, True),
        ("timestamp desc", True, False),
        ('["event"]', False, False),
        ('["timestamp", "event"]', False, False),
    ],
)
def test_order_by_time_is_recognized(sent: str, is_by_time: bool, is_ascending: bool) -> None:
    query = parse(orderBy=sent, select="event")
    assert (query.is_by_time, query.is_ascending) == (is_by_time, is_ascending)


def test_hogql_texts_carry_their_parameter() -> None:
    filters = '{"type": "OR", "values": [{"key": "c", "type": "hogql"}, {"key": "x", "value": 1}]}'
    order = ["-d", "e DESC"]
    query = parse(select=["a", "*", "person"], where="b", properties=filters, orderBy=order)
    assert query.hogql_texts == [
        ("select", "a"),
        ("where", "b"),
        ("orderBy", "e DESC"),
        ("properties", "c"),
    ]


@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("limit", "0"),
        ("limit", "1.5"),
        ("offset", "-1"),
        ("offset", "50001"),
        ("after", "soon"),
        ("before", "soon"),
        ("cursor", "x"),
        ("include_person", "perhaps"),
        ("properties", "["),
        ("properties", '[{"key": "\\u0000"}]'),
        ("select", "[1]"),
        ("select", "x\x00"),
        ("select", '["\\ud800"]'),
        ("where", "[{}]"),
        ("where", "[" + ",".join(['"1"'] * (MAX_EXPRESSIONS + 1)) + "]"),
        ("orderBy", "event"),
        ("event", "\x00"),
        ("person_id", "\ud800"),
    ],
)
def test_invalid_values_name_their_parameter(name: str, sent: str) -> None:
    parameters: dict[str, Any] = {name: sent}
    with pytest.raises(Invalid) as caught:
        parse(**parameters)
    assert caught.value.attr == name
