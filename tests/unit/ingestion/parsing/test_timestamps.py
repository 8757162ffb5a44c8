from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.ingestion.parsing.event import EventParser
from hedgerow.ingestion.parsing.request import parse_sent_at
from hedgerow.lib.dates import EPOCH, parse_event_timestamp
from tests.unit.generated import bounded

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
MORNING = datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)
MIDNIGHT = datetime(2024, 1, 2, tzinfo=UTC)
IN_FUTURE = ("event_timestamp_in_future",)
INVALID = ("ignored_invalid_timestamp",)
OUT_OF_RANGE = ("event_timestamp_out_of_range",)

READABLE: list[tuple[Any, datetime]] = [
    ("2024-01-02T03:04:05Z", MORNING),
    ("2024-01-02T03:04:05.678Z", MORNING + timedelta(milliseconds=678)),
    ("2024-01-02T03:04:05.678901Z", MORNING + timedelta(microseconds=678901)),
    ("2024-01-02T03:04:05.678901999Z", MORNING + timedelta(microseconds=678901)),
    ("2024-01-02T03:04:05.6789019991234Z", MORNING + timedelta(microseconds=678901)),
    ("2024-01-02T03:04:05+00:00", MORNING),
    ("2024-01-02T06:04:05+03:00", MORNING),
    ("2024-01-02T06:04:05+03", MORNING),
    ("2024-01-02T06:04:05+0300", MORNING),
    ("2024-01-01T23:34:05-03:30", MORNING),
    ("2024-01-02t03:04:05z", MORNING),
    ("2024-01-02T03:04:60Z", MIDNIGHT.replace(hour=3, minute=5)),
    ("2024-01-02T03:04:05", MORNING),
    ("2024-01-02T03:04", MORNING.replace(second=0)),
    (" 2024-01-02T03:04:05Z ", MORNING),
    ("2024-01-02 03:04:05", MORNING),
    ("2024-01-02 03:04:05.5", MORNING + timedelta(milliseconds=500)),
    ("2024-01-02 06:04:05 +03:00", MORNING),
    ("2024-01-02 06:04:05 +03", MORNING),
    ("2024-01-02 03:04:05 UTC", MORNING),
    ("2024-01-02", MIDNIGHT),
    ("2024/01/02", MIDNIGHT),
    ("2024/1/2 03:04:05", MORNING),
    ("01/02/2024", MIDNIGHT),
    ("1/2/2024 3:04:05 AM", MORNING),
    ("1/2/2024 3:04:05 pm", MORNING + timedelta(hours=12)),
    ("1/2/2024 12:00 AM", MIDNIGHT),
    ("1/2/2024 12:00 PM", MIDNIGHT + timedelta(hours=12)),
    ("Tue, 02 Jan 2024 03:04:05 GMT", MORNING),
    ("Tue, 2 Jan 2024 06:04:05 +0300", MORNING),
    ("02 Jan 2024 03:04:05 -0000", MORNING),
    ("2 Jan 2024 03:04:05", MORNING),
    ("Tue, 02 Jan 2024 03:04:05 EST", MORNING + timedelta(hours=5)),
    ("1704164645", MORNING),
    ("1704164645678", MORNING + timedelta(milliseconds=678)),
    # Parsed as an ISO 8601 date, this would be in the year 1712.
    ("1712123112123", datetime(2024, 4, 3, 5, 45, 12, 123000, tzinfo=UTC)),
    (1704164645, MORNING),
    (1704164645678, MORNING + timedelta(milliseconds=678)),
    ("0001-01-01T00:00:00Z", datetime(1, 1, 1, tzinfo=UTC)),
    ("0001-01-01T00:00:00+05:00", datetime(1, 1, 1, tzinfo=UTC)),
    ("9999-12-31T23:59:59-05:00", datetime.max.replace(tzinfo=UTC)),
    ("9999-12-31T23:59:60Z", datetime.max.replace(tzinfo=UTC)),
]

UNREADABLE: list[Any] = [
    "",
    " ",
    "now",
    "yesterday",
    "null",
    "Invalid Date",
    "NaN",
    "2024",
    "2024-01",
    "20240102030405",
    "17041646456789",
    "170416464",
    "-1704164645",
    "1704164645.5",
    "1e9",
    "2024-13-01",
    "2024-02-30T00:00:00Z",
    "2024-01-02T25:00:00Z",
    "2024-01-02T24:00:00Z",
    "2024-01-02T03:60:00Z",
    "2024-01-02T03:04:05+99:00",
    "2024-01-02T03:04:05Q",
    "2024-01-02x03:04:05Z",
    "2024-01-02T03:04:05Z; DROP TABLE events",
    "2024-01/02",
    "13/13/2024",
    "1/2/2024 13:00 PM",
    "1/2/2024 0:00 AM",
    "99 Foo 2024 03:04:05 GMT",
    "99 Jan 2024 99:99:99 GMT",
    "0000-01-01T00:00:00Z",
    "+275760-09-13T00:00:00.000Z",
    "-000001-01-01T00:00:00Z",
    "２０２４-01-02",
    "١٧٠٤١٦٤٦٤٥",
    "2024-01-0\ud800T03:04:05Z",
    pytest.param("2024-01-02T" * 100_000, id="very long"),
    None,
    True,
    False,
    0,
    -1,
    12,
    10**400,
    1704164645.5,
    float("nan"),
    float("inf"),
    [],
    {},
    ["2024-01-02"],
]


@pytest.mark.parametrize(("written", "moment"), READABLE)
def test_timestamp_formats_of_clients_are_parsed(written: Any, moment: datetime) -> None:
    found = parse_event_timestamp(written)
    assert found == moment
    assert found is not None
    assert found.tzinfo is UTC


@pytest.mark.parametrize("written", UNREADABLE)
def test_other_values_are_not_timestamps(written: Any) -> None:
    assert parse_event_timestamp(written) is None


@bounded
@given(st.datetimes(timezones=st.just(UTC)))
def test_every_iso_8601_time_is_parsed(moment: datetime) -> None:
    assert parse_event_timestamp(moment.isoformat()) == moment
    assert parse_event_timestamp(moment.isoformat(sep=" ")) == moment


@bounded
@given(
    st.text()
    | st.text("0123456789-/:TZ+. APM", max_size=70)
    | st.from_regex(r"\d+/\d+/\d+", alphabet="0123456789٠٣९/- \n")
)
def test_any_text_can_be_parsed_as_a_timestamp(written: str) -> None:
    found = parse_event_timestamp(written)
    assert found is None or found.tzinfo is UTC


SENT_AT: list[tuple[Any, int | None, datetime | None]] = [
    (None, None, None),
    ("2024-01-02T03:04:05Z", None, MORNING),
    (None, 1704164645000, MORNING),
    ("2024-01-02T03:04:05Z", 1794744000000, MORNING),
    ("garbage", 1704164645000, MORNING),
    (["2024-01-02T03:04:05Z"], None, None),
    ("2020-12-31T23:59:59Z", None, None),
    ("2021-01-01T00:00:00Z", None, datetime(2021, 1, 1, tzinfo=UTC)),
    # Seconds instead of milliseconds.
    (None, 1704164645, None),
    ("1970-01-20T17:22:44Z", 1704164645000, MORNING),
    (None, 0, None),
    (None, 10**15 - 1, datetime.max.replace(tzinfo=UTC)),
]


@pytest.mark.parametrize(("sent_at", "query_ms", "moment"), SENT_AT)
def test_sent_time_is_used_if_plausible(
    sent_at: Any, query_ms: int | None, moment: datetime | None
) -> None:
    assert parse_sent_at(sent_at, query_ms) == moment


def normalize(
    timestamp: Any = None,
    offset: Any = None,
    *,
    sent: datetime | None = None,
    ignore_sent_at: bool = False,
) -> tuple[datetime, tuple[str, ...]]:
    moment, warnings = event_parser(sent).determine_time(
        timestamp, offset, ignore_sent_at=ignore_sent_at
    )
    return moment, tuple(warnings)


def event_parser(sent_at: datetime | None) -> EventParser:
    return EventParser(
        now=NOW, sent_at=sent_at, default_name="", ip="", is_historical=False, uuids=iter(())
    )


def test_missing_timestamp_is_the_time_of_arrival() -> None:
    assert normalize() == (NOW, ())
    assert normalize(sent=NOW + timedelta(hours=5)) == (NOW, ())


@pytest.mark.parametrize("timestamp", ["", "garbage", True, {}])
def test_invalid_timestamp_is_replaced_with_a_warning(timestamp: Any) -> None:
    assert normalize(timestamp) == (NOW, INVALID)


def test_timestamp_is_unchanged_without_a_sent_time() -> None:
    assert normalize("2024-01-02T03:04:05Z") == (MORNING, ())


@pytest.mark.parametrize("skew", [timedelta(hours=5), timedelta(), timedelta(days=-400)])
def test_clock_skew_of_the_client_is_corrected(skew: timedelta) -> None:
    happened = NOW - timedelta(minutes=10)
    client_time = (happened + skew).isoformat()
    assert normalize(client_time, sent=NOW + skew) == (happened, ())


def test_sent_time_can_be_ignored() -> None:
    sent = NOW + timedelta(hours=5)
    assert normalize("2024-01-02T03:04:05Z", sent=sent, ignore_sent_at=True) == (MORNING, ())


OFFSETS: list[tuple[Any, datetime]] = [
    (0, NOW),
    (1500, NOW - timedelta(milliseconds=1500)),
    (0.5, NOW - timedelta(microseconds=500)),
    (-1000, NOW + timedelta(seconds=1)),
    (None, NOW),
    ("1500", NOW),
    (True, NOW),
    ([1500], NOW),
    (float("nan"), NOW),
]


@pytest.mark.parametrize(("offset", "moment"), OFFSETS)
def test_offset_counts_back_from_arrival(offset: Any, moment: datetime) -> None:
    assert normalize(offset=offset) == (moment, ())
    assert normalize(offset=offset, sent=NOW + timedelta(hours=5)) == (moment, ())


def test_valid_timestamp_overrides_an_offset() -> None:
    assert normalize("2024-01-02T03:04:05Z", 1500) == (MORNING, ())


def test_offset_replaces_an_invalid_timestamp() -> None:
    assert normalize("garbage", 1500) == (NOW - timedelta(milliseconds=1500), INVALID)


def test_timestamp_more_than_23_hours_ahead_is_replaced() -> None:
    limit = NOW + timedelta(hours=23)
    assert normalize(limit.isoformat()) == (limit, ())
    assert normalize((limit + timedelta(microseconds=1)).isoformat()) == (NOW, IN_FUTURE)


@pytest.mark.parametrize("offset", [-(10**9), -(10**15), -(10**400), float("-inf")])
def test_offset_into_the_far_future_is_replaced(offset: Any) -> None:
    assert normalize(offset=offset) == (NOW, IN_FUTURE)
    assert normalize("garbage", offset) == (NOW, INVALID + IN_FUTURE)


def test_timestamp_corrected_too_far_ahead_is_replaced() -> None:
    slow = datetime(2021, 1, 1, tzinfo=UTC)
    assert normalize("2026-11-15T12:00:00Z", sent=slow) == (NOW, IN_FUTURE)
    assert normalize("9999-12-31T23:59:59Z", sent=slow) == (NOW, IN_FUTURE)


@pytest.mark.parametrize(
    "timestamp", ["0001-01-01T00:00:00Z", "0001-01-01T00:00:00+14:00", "1899-12-31T23:59:59Z"]
)
def test_timestamp_out_of_range_is_the_epoch(timestamp: str) -> None:
    assert normalize(timestamp) == (EPOCH, OUT_OF_RANGE)
    assert normalize(timestamp, sent=datetime(9998, 1, 1, tzinfo=UTC)) == (EPOCH, OUT_OF_RANGE)


@pytest.mark.parametrize("offset", [10**15, 10**400, float("inf")])
def test_offset_into_the_far_past_is_the_epoch(offset: Any) -> None:
    assert normalize(offset=offset) == (EPOCH, OUT_OF_RANGE)


def test_year_1900_can_be_stored() -> None:
    assert normalize("1900-01-01T00:00:00Z") == (datetime(1900, 1, 1, tzinfo=UTC), ())


ANYTHING = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.lists(st.integers())
)
TIMESTAMPS = ANYTHING | st.datetimes(timezones=st.timezones()).map(datetime.isoformat)


@bounded
@given(TIMESTAMPS, ANYTHING, ANYTHING, st.none() | st.integers(0, 10**15 - 1), st.booleans())
def test_any_event_gets_a_storable_timestamp(
    timestamp: Any, offset: Any, sent_at: Any, query_ms: int | None, is_ignored: bool
) -> None:
    parser = event_parser(parse_sent_at(sent_at, query_ms))
    moment, _ = parser.determine_time(timestamp, offset, ignore_sent_at=is_ignored)
    assert moment.tzinfo is UTC
    assert datetime(1900, 1, 1, tzinfo=UTC) <= moment <= NOW + timedelta(hours=23)
