from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from hedgerow.errors import Invalid
from hedgerow.events.filters.conditions import QueryTime
from hedgerow.insights.date_range import (
    DateRange,
    Interval,
    parse_date_range,
    shift_to_previous,
)
from hedgerow.projects.model import WeekStart

BERLIN = ZoneInfo("Europe/Berlin")
# A Wednesday, 14:30 in Berlin.
NOW = datetime(2026, 3, 11, 13, 30, tzinfo=UTC)


def parse(interval: str = "day", **sent: Any) -> DateRange:
    return parse_date_range(sent, Interval(interval), QueryTime(now=NOW, zone=BERLIN), None)


@pytest.mark.parametrize(
    ("interval", "sent", "start", "end"),
    [
        ("day", {}, "2026-03-04 00:00:00", "2026-03-11 23:59:59.999999"),
        ("day", {"date_from": "-7d"}, "2026-03-04 00:00:00", "2026-03-11 23:59:59.999999"),
        (
            "day",
            {"date_from": "2026-03-01", "date_to": "2026-03-02"},
            "2026-03-01 00:00:00",
            "2026-03-02 23:59:59.999999",
        ),
        ("week", {"date_from": "2026-03-04"}, "2026-03-04 00:00:00", "2026-03-11 23:59:59.999999"),
        ("month", {"date_from": "-1m"}, "2026-02-01 00:00:00", "2026-03-11 23:59:59.999999"),
        ("hour", {"date_from": "-24h"}, "2026-03-10 14:00:00", "2026-03-11 14:59:59.999999"),
        ("minute", {"date_from": "-90M"}, "2026-03-11 13:00:00", "2026-03-11 14:30:59.999999"),
        (
            "hour",
            {"date_from": "2026-03-10T09:20:00", "date_to": "2026-03-10T11:00:00"},
            "2026-03-10 09:00:00",
            "2026-03-10 11:00:00",
        ),
        (
            "day",
            {
                "date_from": "2026-03-10T09:20:00",
                "date_to": "2026-03-10T11:00:00",
                "explicitDate": True,
            },
            "2026-03-10 09:20:00",
            "2026-03-10 11:00:00",
        ),
        ("day", {"date_from": "dStart"}, "2026-03-11 00:00:00", "2026-03-11 23:59:59.999999"),
        (
            "day",
            {"date_from": "-1dStart", "date_to": "-1dEnd"},
            "2026-03-10 00:00:00",
            "2026-03-10 23:59:59.999999",
        ),
    ],
)
def test_ranges_as_posthog_reads_them(interval: str, sent: Any, start: str, end: str) -> None:
    found = parse(interval, **sent)
    assert (str(found.start)[:-6], str(found.end)[:-6]) == (start, end)


def test_a_week_begins_on_the_day_that_the_project_chooses() -> None:
    time = QueryTime(now=NOW, zone=BERLIN, week_start=WeekStart.MONDAY)
    found = parse_date_range({"date_from": "2026-03-04"}, Interval.WEEK, time, None)
    assert found.days == ["2026-03-02", "2026-03-09"]
    assert parse("week", date_from="2026-03-04").days == ["2026-03-01", "2026-03-08"]


@pytest.mark.parametrize(
    ("interval", "first", "last", "labels"),
    [
        ("day", "2026-03-01", "2026-03-02", ["1-Mar-2026", "2-Mar-2026"]),
        ("hour", "2026-03-01T00:00", "2026-03-01T01:30", ["1-Mar 00:00", "1-Mar 01:00"]),
        ("month", "2026-02-10", "2026-03-01", ["Feb 2026", "Mar 2026"]),
        # Weeks name their days within the range.
        ("week", "2026-03-03", "2026-03-15", ["3–7 Mar", "8–14 Mar", "15-Mar-2026"]),
        ("week", "2025-12-28", "2026-01-31", ["28-Dec-2025 – 3-Jan-2026", "4–10 Jan"]),
        ("week", "2026-03-29", "2026-04-11", ["29-Mar – 4-Apr", "5–11 Apr"]),
    ],
)
def test_labels(interval: str, first: str, last: str, labels: list[str]) -> None:
    found = parse(interval, date_from=first, date_to=last)
    assert found.labels[: len(labels)] == labels


def test_days_across_a_clock_change() -> None:
    found = parse(date_from="2026-03-28", date_to="2026-03-30")
    assert found.days == ["2026-03-28", "2026-03-29", "2026-03-30"]
    assert {each.hour for each in found.interval_starts} == {0}


def test_hours_across_a_clock_change() -> None:
    spring = parse("hour", date_from="2026-03-29", date_to="2026-03-29")
    assert len(spring.interval_starts) == 23
    autumn = parse("hour", date_from="2025-10-26", date_to="2025-10-26")
    assert len(autumn.interval_starts) == 25
    assert autumn.days[2:4] == ["2025-10-26 02:00:00", "2025-10-26 02:00:00"]


@pytest.mark.parametrize(
    ("sent", "first", "last"),
    [
        # Seven days ago until now are eight days: the same days of the week before.
        ({"date_from": "-7d"}, "2026-02-25", "2026-03-04"),
        ({"date_from": "2026-03-08", "date_to": "2026-03-10"}, "2026-03-05", "2026-03-07"),
        # This month until now compares with the whole one before, and so do the others.
        ({"date_from": "mStart"}, "2026-02-01", "2026-02-28"),
        ({"date_from": "wStart"}, "2026-03-02", "2026-03-08"),
        ({"date_from": "qStart"}, "2025-10-01", "2025-12-31"),
        ({"date_from": "yStart"}, "2025-01-01", "2025-12-31"),
        ({"date_from": "mStart", "date_to": "2026-03-10"}, "2026-02-19", "2026-02-28"),
        # Without today, seven days are seven days.
        ({"date_from": "-7d", "excludeIncompletePeriods": True}, "2026-02-25", "2026-03-03"),
    ],
)
def test_the_period_before(sent: Any, first: str, last: str) -> None:
    previous = shift_to_previous(parse(**sent), sent)
    assert (previous.days[0], previous.days[-1]) == (first, last)


def test_the_period_before_has_the_times_of_day_of_its_period() -> None:
    sent: Any = {
        "date_from": "2026-03-10T06:00",
        "date_to": "2026-03-12T18:00",
        "explicitDate": True,
    }
    previous = shift_to_previous(parse(**sent), sent)
    assert previous.start == datetime(2026, 3, 7, 6, tzinfo=BERLIN)
    assert previous.end == datetime(2026, 3, 9, 18, tzinfo=BERLIN)


@pytest.mark.parametrize(
    ("interval", "sent", "last"),
    [
        ("day", {"date_from": "-7d"}, "2026-03-10"),
        ("hour", {"date_from": "-2d"}, "2026-03-11 13:00:00"),
        ("month", {"date_from": "-3m"}, "2026-02-01"),
        # The range ends before today.
        ("day", {"date_from": "2026-03-01", "date_to": "2026-03-04"}, "2026-03-04"),
    ],
)
def test_without_the_interval_that_is_not_over(interval: str, sent: Any, last: str) -> None:
    assert parse(interval, **sent, excludeIncompletePeriods=True).days[-1] == last


@pytest.mark.parametrize(
    ("interval", "sent"),
    [
        ("day", {"date_from": "soon"}),
        ("day", {"date_from": "2026-03-02", "date_to": "2026-03-01"}),
        ("minute", {"date_from": "-30d"}),
        ("day", {"date_from": 5}),
        ("day", {"date_from": "dStart", "excludeIncompletePeriods": True}),
        ("day", {"date_from": "-7d", "daysOfWeek": [6, 7]}),
    ],
)
def test_other_ranges_are_refused(interval: str, sent: Any) -> None:
    with pytest.raises(Invalid):
        parse(interval, **sent)


@pytest.mark.parametrize(
    ("day", "number", "start", "end"),
    [
        # The hour before the clock goes forward, and the one that it goes back to.
        ("2026-03-29", 1, "2026-03-29 00:00:00", "2026-03-29 00:59:59.999999"),
        ("2026-10-25", 2, "2026-10-25 00:00:00", "2026-10-25 00:59:59.999999"),
        ("2026-10-25", 3, "2026-10-25 01:00:00", "2026-10-25 01:59:59.999999"),
    ],
)
def test_an_hour_at_a_clock_change(day: str, number: int, start: str, end: str) -> None:
    """Times in UTC of an hour of a day in Berlin."""
    hour = parse("hour", date_from=day, date_to=day).narrow_to(number)
    found = [each.astimezone(UTC).replace(tzinfo=None) for each in (hour.start, hour.end)]
    assert [str(each) for each in found] == [start, end]


def test_a_range_that_ends_within_a_repeated_hour() -> None:
    """02:30 in summer time, when 02:00 in winter time is yet to come."""
    found = parse("hour", date_from="2026-10-25", date_to="2026-10-25T00:30:00Z")
    assert len(found.interval_starts) == 3
