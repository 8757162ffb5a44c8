from datetime import UTC, datetime, timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st

from hedgerow.lib.clock import format_iso, utc_now
from tests.unit.generated import bounded


def test_timestamp_is_formatted_in_utc_with_microseconds() -> None:
    assert format_iso(datetime(2026, 3, 1, 12, 30, 5, tzinfo=UTC)) == "2026-03-01T12:30:05.000000Z"


def test_other_time_zones_are_converted_to_utc() -> None:
    oslo = timezone(timedelta(hours=2))
    assert (
        format_iso(datetime(2026, 7, 1, 1, 0, 0, 7, tzinfo=oslo)) == "2026-06-30T23:00:00.000007Z"
    )


@bounded
@given(st.datetimes(timezones=st.just(UTC)))
def test_formatted_timestamp_parses_back(moment: datetime) -> None:
    assert datetime.fromisoformat(format_iso(moment)) == moment


def test_now_is_aware_and_in_utc() -> None:
    assert utc_now().utcoffset() == timedelta(0)
