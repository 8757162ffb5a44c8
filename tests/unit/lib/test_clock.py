from datetime import UTC, datetime, timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st

from hedgerow.lib.clock import iso, utc_now
from tests.unit.generated import bounded


def test_a_moment_is_written_in_utc_with_microseconds_and_z() -> None:
    assert iso(datetime(2026, 3, 1, 12, 30, 5, tzinfo=UTC)) == "2026-03-01T12:30:05.000000Z"


def test_other_zones_are_brought_to_utc() -> None:
    oslo = timezone(timedelta(hours=2))
    assert iso(datetime(2026, 7, 1, 1, 0, 0, 7, tzinfo=oslo)) == "2026-06-30T23:00:00.000007Z"


@bounded
@given(st.datetimes(timezones=st.just(UTC)))
def test_what_is_written_reads_back_as_the_same_moment(moment: datetime) -> None:
    assert datetime.fromisoformat(iso(moment)) == moment


def test_now_is_aware_and_utc() -> None:
    assert utc_now().utcoffset() == timedelta(0)
