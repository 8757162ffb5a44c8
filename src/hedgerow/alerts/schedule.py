"""When an alert is checked, in the project's time zone. Pure."""

from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

from hedgerow.alerts.model import Alert, CheckInterval

# The local hours of PostHog's checks.
DAILY_HOUR = 1
WEEKLY_HOUR = 3
MONTHLY_HOUR = 4
SATURDAY = 5


def find_next_check(alert: Alert, now: datetime, zone: ZoneInfo) -> datetime:
    """Return the first time after now. Checks that were missed are not made up for."""
    found = _find_next(alert.calculation_interval, now.astimezone(zone))
    if alert.skip_weekend and alert.calculation_interval in _SKIPPING_WEEKENDS:
        while found.weekday() >= SATURDAY:
            found = _find_next(alert.calculation_interval, found)
    return found.astimezone(UTC)


_SKIPPING_WEEKENDS = (CheckInterval.HOURLY, CheckInterval.DAILY)


def is_weekend(alert: Alert, now: datetime, zone: ZoneInfo) -> bool:
    """Whether the alert is not checked now because of the day."""
    skips = alert.skip_weekend and alert.calculation_interval in _SKIPPING_WEEKENDS
    return skips and now.astimezone(zone).weekday() >= SATURDAY


def _find_next(interval: CheckInterval, local: datetime) -> datetime:
    match interval:
        case CheckInterval.HOURLY:
            return _find_next_hour(local)
        case CheckInterval.DAILY:
            return _choose_after(local, [0, 1], DAILY_HOUR)
        case CheckInterval.WEEKLY:
            monday = -local.weekday()
            return _choose_after(local, [monday, monday + 7], WEEKLY_HOUR)
        case CheckInterval.MONTHLY:
            this = local.date().replace(day=1)
            following = (this + timedelta(days=32)).replace(day=1)
            days = [(each - local.date()).days for each in (this, following)]
            return _choose_after(local, days, MONTHLY_HOUR)


def _find_next_hour(local: datetime) -> datetime:
    """Add elapsed time, so that an hour that a clock change repeats is checked twice."""
    past = timedelta(minutes=local.minute, seconds=local.second, microseconds=local.microsecond)
    following = local.astimezone(UTC) - past + timedelta(hours=1)
    return following.astimezone(local.tzinfo)


def _choose_after(local: datetime, days: list[int], hour: int) -> datetime:
    """Return the first of these days, counted from today, whose hour is still to come."""
    for count in days:
        day = local.date() + timedelta(days=count)
        moment = datetime.combine(day, time(hour), local.tzinfo)
        if moment.astimezone(UTC) > local.astimezone(UTC):
            return moment
    raise AssertionError("the last of the days is in the future")
