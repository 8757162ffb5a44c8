"""Members by behavior change with the time, even if nothing happens."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from hedgerow.persons.behaviors.filters import SEQUENCE_DEPTH, parse_behavioral_filter
from hedgerow.persons.behaviors.membership import (
    describe_filter,
    describe_occurrences,
    matches_behavior,
)
from hedgerow.persons.behaviors.times import (
    NEVER,
    Occurrences,
    add_occurrences,
    pack_end,
    pack_occurrence,
    unpack_occurrences,
)
from tests.unit.persons.behaviors.test_filters import DID, MANY, THEN

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
END = pack_end(NOW)


def occurrences(*hours_ago: float) -> Occurrences:
    packed = [pack_occurrence(NOW - timedelta(hours=each), str(uuid4())) for each in hours_ago]
    return unpack_occurrences([add_occurrences(b"", packed, 1001, END)] if packed else [])


def matches(
    filter: dict[str, Any], first: Occurrences, second: Occurrences = NEVER, days: float = 0
) -> bool:
    parsed = parse_behavioral_filter(filter)
    return matches_behavior(parsed, first, second, NOW + timedelta(days=days))


def test_a_window_slides() -> None:
    once = occurrences(24)
    assert matches(DID, once)
    assert matches(DID, once, days=28.999)
    assert not matches(DID, once, days=29)
    assert not matches(DID, occurrences())
    later = occurrences(-2)
    assert [matches(DID, later, days=days) for days in (0, 0.1, 31)] == [False, True, False]


@pytest.mark.parametrize(
    ("operator", "expected"),
    [
        ("gte", [0, 0, 0, 1, 1]),
        ("gt", [0, 0, 0, 0, 1]),
        ("lte", [0, 1, 1, 1, 0]),
        ("lt", [0, 1, 1, 0, 0]),
        ("exact", [0, 0, 0, 1, 0]),
        ("eq", [0, 0, 0, 1, 0]),
        (None, [0, 0, 0, 1, 0]),
    ],
)
def test_counts(operator: str | None, expected: list[int]) -> None:
    found = [
        matches({**MANY, "operator": operator}, occurrences(*range(1, 1 + count)))
        for count in range(5)
    ]
    assert found == [bool(each) for each in expected]


def test_first_time() -> None:
    first = {**DID, "value": "performed_event_first_time", "time_value": 2}
    assert matches(first, occurrences(40, 2))
    assert not matches(first, occurrences(50, 2))
    assert not matches(first, occurrences())


def test_sequence() -> None:
    assert matches(THEN, occurrences(10), occurrences(9.5))
    assert not matches(THEN, occurrences(10), occurrences(10))
    assert not matches(THEN, occurrences(10), occurrences(8.5))
    assert not matches(THEN, occurrences(9.5), occurrences(10))
    assert matches(THEN, occurrences(100, 50, 1), occurrences(99.5))
    assert not matches(THEN, occurrences(31 * 24), occurrences(31 * 24 - 0.5))
    assert not matches(THEN, occurrences(0.5), occurrences(-0.1))
    # The latest occurrences count: the first ones of many are forgotten.
    many = occurrences(100, *(each / 100 for each in range(SEQUENCE_DEPTH)))
    assert not matches(THEN, many, occurrences(99.5))


def test_stopped() -> None:
    stopped = {**DID, "value": "stopped_performing_event"}
    stopped |= {"seq_time_value": 7, "seq_time_interval": "day"}
    assert matches(stopped, occurrences(24 * 8))
    assert not matches(stopped, occurrences(24 * 8, 24 * 6))
    assert not matches(stopped, occurrences(24 * 31))


def test_dates() -> None:
    dates = {**DID, "explicit_datetime": "2026-02-28", "explicit_datetime_to": "2026-03-01"}
    assert matches(dates, occurrences(20), days=100)
    assert not matches(dates, occurrences(40))
    assert matches({**DID, "explicit_datetime": "-1m"}, occurrences(24 * 27))
    assert not matches({**DID, "explicit_datetime": "-1m"}, occurrences(24 * 29))


def test_words() -> None:
    parsed = parse_behavioral_filter(MANY)
    assert describe_filter(parsed) == "gte 3 times within 30 days"
    sequence = describe_filter(parse_behavioral_filter({**THEN, "time_interval": "minute"}))
    assert sequence == "then b within 1 hour, within 30 minutes"
    month = {**DID, "explicit_datetime": "-1m", "explicit_datetime_to": "2026-01-01"}
    text = describe_filter(parse_behavioral_filter(month))
    assert text == "at least once since -1m until 2026-01-01T00:00:00+00:00"
    assert describe_occurrences(parsed, occurrences(), NOW) == "never"
    text = describe_occurrences(parsed, occurrences(2, 1), NOW)
    assert text == "2 times, last at 2026-03-01T11:00:00+00:00"
