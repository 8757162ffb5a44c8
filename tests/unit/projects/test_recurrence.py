"""Dates of subscriptions, compared with python-dateutil and worked out by hand."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from dateutil import rrule
from hypothesis import given, settings
from hypothesis import strategies as st

from hedgerow.projects.recurrence import (
    Frequency,
    Recurrence,
    Weekday,
    describe_recurrence,
    find_next_date,
)

BERLIN = ZoneInfo("Europe/Berlin")
UTC_ZONE = ZoneInfo("UTC")
START = datetime(2026, 3, 2, 9, 30, tzinfo=UTC)  # a Monday
FREQUENCIES = {
    Frequency.DAILY: rrule.DAILY,
    Frequency.WEEKLY: rrule.WEEKLY,
    Frequency.MONTHLY: rrule.MONTHLY,
    Frequency.YEARLY: rrule.YEARLY,
}


@settings(max_examples=60, deadline=None)
@given(
    frequency=st.sampled_from(Frequency),
    interval=st.integers(1, 5),
    weekdays=st.sets(st.sampled_from(Weekday), max_size=4),
    position=st.none() | st.sampled_from([1, 2, 4, -1, -2]),
    count=st.none() | st.integers(1, 30),
    start_day=st.integers(0, 2000),
    wait_days=st.integers(-3, 900),
)
def test_agrees_with_dateutil(
    frequency: Frequency,
    interval: int,
    weekdays: set[Weekday],
    position: int | None,
    count: int | None,
    start_day: int,
    wait_days: int,
) -> None:
    start = START + timedelta(days=start_day)
    after = start + timedelta(days=wait_days, hours=3)
    rule = Recurrence(
        frequency=frequency,
        interval=interval,
        start=start,
        weekdays=sorted(weekdays),
        position=position,
        count=count,
        until=start + timedelta(days=1200),
    )
    options: dict[str, Any] = {
        "byweekday": [list(Weekday).index(each) for each in weekdays] or None,
        "bysetpos": position,
        "until": rule.until,
    }
    if position is not None and not weekdays:
        # dateutil refuses a position without another part of the rule.
        weekdays = set(Weekday)
        rule = Recurrence(
            frequency=frequency, interval=interval, start=start, count=count, until=rule.until
        )
        options.pop("bysetpos")
        options["byweekday"] = None
    theirs = rrule.rrule(FREQUENCIES[frequency], dtstart=start, interval=interval, **options)
    dates: Iterable[datetime] = islice(theirs, count)
    if _has_no_date(rule):
        # dateutil compares only dates with `until`, and would search to the year 9999.
        dates = ()
    expected = next((each for each in dates if each > after), None)
    assert find_next_date(rule, after, UTC_ZONE) == expected


def _has_no_date(rule: Recurrence) -> bool:
    """Tell whether a day or a week has fewer dates than the position of the rule."""
    if rule.position is None or rule.frequency not in (Frequency.DAILY, Frequency.WEEKLY):
        return False
    dates = 1 if rule.frequency is Frequency.DAILY else len(rule.weekdays)
    return abs(rule.position) > dates


def test_keeps_the_local_time_when_the_clocks_change() -> None:
    start = datetime(2026, 3, 27, 9, 0, tzinfo=BERLIN)
    rule = Recurrence(frequency=Frequency.DAILY, interval=1, start=start)
    found = find_next_date(rule, datetime(2026, 3, 28, 12, tzinfo=UTC), BERLIN)
    assert found == datetime(2026, 3, 29, 7, 0, tzinfo=UTC)
    before = find_next_date(rule, datetime(2026, 3, 27, 12, tzinfo=UTC), BERLIN)
    assert before == datetime(2026, 3, 28, 8, 0, tzinfo=UTC)


def test_the_start_itself_is_a_date_and_is_counted() -> None:
    rule = Recurrence(frequency=Frequency.DAILY, interval=1, start=START, count=2)
    assert find_next_date(rule, START - timedelta(days=5), UTC_ZONE) == START
    assert find_next_date(rule, START, UTC_ZONE) == START + timedelta(days=1)
    assert find_next_date(rule, START + timedelta(days=1), UTC_ZONE) is None


def test_months_without_the_day_are_left_out() -> None:
    start = datetime(2026, 1, 31, 9, tzinfo=UTC)
    rule = Recurrence(frequency=Frequency.MONTHLY, interval=1, start=start)
    assert find_next_date(rule, start, UTC_ZONE) == datetime(2026, 3, 31, 9, tzinfo=UTC)


def test_a_rule_without_any_date_ends() -> None:
    start = datetime(2026, 3, 2, 9, tzinfo=UTC)
    rule = Recurrence(
        frequency=Frequency.WEEKLY,
        interval=1000,
        start=start,
        weekdays=[Weekday.MONDAY],
        position=5,
    )
    assert find_next_date(rule, start, UTC_ZONE) is None


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"frequency": Frequency.DAILY, "interval": 1}, "sent every day"),
        (
            {"frequency": Frequency.WEEKLY, "interval": 2, "weekdays": [Weekday.MONDAY]},
            "sent every 2 weeks on Monday",
        ),
        (
            {
                "frequency": Frequency.MONTHLY,
                "interval": 1,
                "weekdays": [Weekday.FRIDAY],
                "position": -1,
            },
            "sent every month on the last Friday",
        ),
        (
            {
                "frequency": Frequency.MONTHLY,
                "interval": 1,
                "weekdays": list(Weekday),
                "position": 1,
            },
            "sent every month on the first day",
        ),
    ],
)
def test_summary(fields: dict[str, Any], expected: str) -> None:
    assert describe_recurrence(Recurrence(start=START, **fields)) == expected
