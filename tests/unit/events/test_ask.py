"""Parameters of a list, and what they ask."""

from datetime import UTC, datetime
from typing import Any

import pytest

from hedgerow.errors import Invalid
from hedgerow.events.ask import AHEAD, MAX_LIMIT, Asked, asked
from hedgerow.events.parameters import MAX_EXPRESSIONS

NOW = datetime(2026, 3, 30, 10, 20, 30, tzinfo=UTC)


def ask(*, has_cap: bool = True, **sent: Any) -> Asked:
    def values(name: str) -> list[str]:
        found = sent.get(name, [])
        return [found] if isinstance(found, str) else found

    return asked(values, NOW, UTC, has_cap=has_cap)


def test_the_bare_call_asks_for_the_newest_hundred() -> None:
    wish = ask()
    assert (wish.after, wish.before, wish.limit, wish.offset) == (None, NOW + AHEAD, 100, 0)
    assert (wish.select, wish.include_person, wish.is_by_time) == (None, True, True)
    assert not wish.is_ascending
    assert not any(wish.said)


@pytest.mark.parametrize(
    ("sent", "limit"),
    [("", 100), ("5", 5), ("10000", 10_000), ("10001", MAX_LIMIT), ("9" * 25, MAX_LIMIT)],
)
def test_a_page_is_bounded(sent: str, limit: int) -> None:
    assert ask(limit=sent).limit == limit


def test_what_is_streamed_is_not() -> None:
    assert ask(has_cap=False).limit is None
    assert ask(has_cap=False, limit="1000000").limit == 1_000_000


def test_of_a_repeated_parameter_the_last_counts() -> None:
    assert ask(limit=["1", "2", ""], event=["a", "b"]).limit == 2
    assert ask(event=["a", "b"]).event == "b"


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
def test_select_is_repeated_or_a_list(sent: list[str], expected: Any) -> None:
    assert ask(select=sent).select == expected


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        (['{"key": "a"}'], [{"key": "a"}]),
        (['[{"key": "a"}, {"key": "b"}]'], [{"key": "a"}, {"key": "b"}]),
        (['{"key": "a"}', '[{"key": "b"}]'], [{"key": "a"}, {"key": "b"}]),
        (['{"type": "OR", "values": []}'], [{"type": "OR", "values": []}]),
    ],
)
def test_filters_are_repeated_or_a_list(sent: list[str], expected: Any) -> None:
    assert ask(properties=sent).properties == expected


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
def test_an_order_by_time_is_known(sent: str, is_by_time: bool, is_ascending: bool) -> None:
    wish = ask(orderBy=sent, select="event")
    assert (wish.is_by_time, wish.is_ascending) == (is_by_time, is_ascending)


def test_all_hogql_is_known_by_its_parameter() -> None:
    filters = '{"type": "OR", "values": [{"key": "c", "type": "hogql"}, {"key": "x", "value": 1}]}'
    order = ["-d", "e DESC"]
    wish = ask(select=["a", "*", "person"], where="b", properties=filters, orderBy=order)
    assert wish.texts == [
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
def test_what_cannot_be_read_is_refused_by_its_name(name: str, sent: str) -> None:
    parameters: dict[str, Any] = {name: sent}
    with pytest.raises(Invalid) as refused:
        ask(**parameters)
    assert refused.value.attr == name
