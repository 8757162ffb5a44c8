"""Parsing of query dates and stored dates."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.errors import Invalid
from hedgerow.lib.dates import EARLIEST, LATEST, parse_stored_date
from hedgerow.projects.validation import parse_date_parameter
from tests.unit.generated import bounded

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 3, 30, 10, 20, 30, 400000, tzinfo=UTC)  # a Monday, a day after summer began


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-01-02T03:04:05.678901Z", "2026-01-02T03:04:05.678901"),
        ("2026-01-02T03:04:05+02:00", "2026-01-02T01:04:05"),
        ("2026-01-02T03:04:05 02:00", "2026-01-02T01:04:05"),
        ("2026-01-02T03:04:05", "2026-01-02T02:04:05"),
        ("2026-01-02 03:04:05", "2026-01-02T02:04:05"),
        ("2026-01-02", "2026-01-01T23:00:00"),
        ("2026/01/02", "2026-01-01T23:00:00"),
        ("20260102", "2026-01-01T23:00:00"),
        ("1767323045", "2026-01-02T03:04:05"),
        ("1767323045.5", "2026-01-02T03:04:05.500000"),
        ("Fri, 02 Jan 2026 03:04:05 GMT", "2026-01-02T03:04:05"),
        ("-24h", "2026-03-29T10:20:30.400000"),
        ("24h", "2026-03-29T10:20:30.400000"),
        ("-7d", "2026-03-23T11:20:30.400000"),
        ("+1d", "2026-03-31T10:20:30.400000"),
        ("-1w", "2026-03-23T11:20:30.400000"),
        ("-1m", "2026-02-28T11:20:30.400000"),
        ("-1q", "2025-12-30T11:20:30.400000"),
        ("-1y", "2025-03-30T10:20:30.400000"),
        ("dStart", "2026-03-29T22:00:00"),
        ("-1dStart", "2026-03-28T23:00:00"),
        ("-1dEnd", "2026-03-29T21:59:59.999999"),
        ("hStart", "2026-03-30T10:00:00"),
        ("wStart", "2026-03-29T22:00:00"),
        ("mStart", "2026-02-28T23:00:00"),
        ("-1mStart", "2026-01-31T23:00:00"),
        ("-1mEnd", "2026-02-28T22:59:59.999999"),
        ("qStart", "2025-12-31T23:00:00"),
        ("yStart", "2025-12-31T23:00:00"),
    ],
)
def test_query_dates_are_parsed_in_the_projects_zone(text: str, expected: str) -> None:
    assert parse_date_parameter(text, NOW, BERLIN, "after").isoformat() == expected + "+00:00"


@pytest.mark.parametrize("text", ["0001-01-02", "-200y", "-9999999999"])
def test_date_before_the_range_becomes_the_earliest(text: str) -> None:
    assert parse_date_parameter(text, NOW, BERLIN, "after") == EARLIEST


def test_date_after_the_range_becomes_the_latest() -> None:
    assert parse_date_parameter("9999-12-31T23:59:59Z", NOW, UTC, "before") == LATEST


@pytest.mark.parametrize(
    "text", ["soon", "-9999y", "d", "-d", "-7x", "7dstart", "2026-13-01", "1e999", "9" * 18, "∞"]
)
def test_invalid_date_names_its_parameter(text: str) -> None:
    with pytest.raises(Invalid) as caught:
        parse_date_parameter(text, NOW, BERLIN, "before")
    assert (caught.value.attr, caught.value.code) == ("before", "invalid_date")


@given(st.text(max_size=80))
@bounded
def test_any_text_is_a_date_or_refused(text: str) -> None:
    try:
        moment = parse_date_parameter(text, NOW, BERLIN, "after")
    except Invalid:
        return
    assert EARLIEST <= moment <= LATEST
    assert moment.utcoffset() == timedelta(0)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2026-01-02T03:04:05+02:00", "2026-01-02T01:04:05"),
        ("2026-01-02T03:04:05", "2026-01-02T03:04:05"),
        ("2026-01-02", "2026-01-02T00:00:00"),
        ("1767323045", "2026-01-02T03:04:05"),
    ],
)
def test_stored_date_without_offset_is_in_utc(value: str, expected: str) -> None:
    assert parse_stored_date(value).isoformat() == expected + "+00:00"


@pytest.mark.parametrize(
    "value", [None, 7, True, [], {}, "", "soon", "-7d", "0001-01-01", "2300-01-01", "9" * 18]
)
def test_invalid_or_out_of_range_stored_date_is_refused(value: object) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - that there is no other error
        parse_stored_date(value)
