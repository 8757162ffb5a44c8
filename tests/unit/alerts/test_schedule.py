"""When alerts are checked, in the time zone of the project."""

from dataclasses import replace
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from hedgerow.alerts.model import CheckInterval
from hedgerow.alerts.schedule import find_next_check, is_weekend
from tests.unit.alerts.alert_factory import build_alert

BERLIN = ZoneInfo("Europe/Berlin")
# 2026-03-29 at 2:00 the clock of Berlin goes forward, on 2026-10-25 at 3:00 back.


def local(text: str, zone: ZoneInfo = BERLIN) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=zone).astimezone(UTC)


@pytest.mark.parametrize(
    ("interval", "now", "expected"),
    [
        ("hourly", "2026-06-10T10:00", "2026-06-10T11:00"),
        ("hourly", "2026-06-10T10:59:59", "2026-06-10T11:00"),
        ("hourly", "2026-03-29T01:30", "2026-03-29T03:00"),
        ("daily", "2026-06-10T00:59", "2026-06-10T01:00"),
        ("daily", "2026-06-10T01:00", "2026-06-11T01:00"),
        ("daily", "2026-03-28T12:00", "2026-03-29T01:00"),
        ("daily", "2026-10-25T12:00", "2026-10-26T01:00"),
        ("weekly", "2026-06-08T02:00", "2026-06-08T03:00"),
        ("weekly", "2026-06-08T03:00", "2026-06-15T03:00"),
        ("weekly", "2026-06-14T23:00", "2026-06-15T03:00"),
        ("monthly", "2026-06-01T03:59", "2026-06-01T04:00"),
        ("monthly", "2026-01-31T12:00", "2026-02-01T04:00"),
        ("monthly", "2026-12-31T23:59", "2027-01-01T04:00"),
    ],
)
def test_next_check_is_a_local_time(interval: str, now: str, expected: str) -> None:
    alert = replace(build_alert(), calculation_interval=CheckInterval(interval))
    assert find_next_check(alert, local(now), BERLIN) == local(expected)


def test_full_hours_of_zones_with_a_part_of_an_hour() -> None:
    kolkata = ZoneInfo("Asia/Kolkata")
    alert = replace(build_alert(), calculation_interval=CheckInterval.HOURLY)
    now = local("2026-06-10T10:10", kolkata)
    assert find_next_check(alert, now, kolkata) == local("2026-06-10T11:00", kolkata)


def test_the_repeated_hour_is_checked_twice() -> None:
    alert = replace(build_alert(), calculation_interval=CheckInterval.HOURLY)
    first = find_next_check(alert, datetime(2026, 10, 25, 0, 30, tzinfo=UTC), BERLIN)
    assert first == datetime(2026, 10, 25, 1, 0, tzinfo=UTC)


def test_weekends_are_skipped_by_local_days() -> None:
    alert = replace(build_alert(), skip_weekend=True, calculation_interval=CheckInterval.HOURLY)
    friday = local("2026-06-12T23:30")
    assert find_next_check(alert, friday, BERLIN) == local("2026-06-15T00:00")
    assert is_weekend(alert, local("2026-06-13T00:10"), BERLIN)
    assert not is_weekend(alert, friday, BERLIN)
    weekly = replace(alert, calculation_interval=CheckInterval.WEEKLY)
    assert not is_weekend(weekly, local("2026-06-13T00:10"), BERLIN)
