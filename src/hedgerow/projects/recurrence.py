"""When a subscription is due: a recurrence rule as in iCalendar (RFC 5545), in local time. Pure.

The rule repeats the local time of day of its start, so that a report at 9:00 stays at 9:00 when the
clocks change. Weeks begin on Monday.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from zoneinfo import ZoneInfo

MAX_INTERVAL = 1000
MAX_COUNT = 10_000
# Periods without a date after which a rule counts as ended: a leap day is 8 years away at most.
MAX_EMPTY_PERIODS = 40
LONGEST_MONTH_DAYS = 31


class Frequency(StrEnum):
    DAILY = "daily"
    WEEKLY = "weekly"
    MONTHLY = "monthly"
    YEARLY = "yearly"


class Weekday(StrEnum):
    MONDAY = "monday"
    TUESDAY = "tuesday"
    WEDNESDAY = "wednesday"
    THURSDAY = "thursday"
    FRIDAY = "friday"
    SATURDAY = "saturday"
    SUNDAY = "sunday"


_NUMBERS = {weekday.value: number for number, weekday in enumerate(Weekday)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Recurrence:
    """Every `interval` days, weeks, months or years from `start` on. `weekdays` narrows it to these
    days, and `position` to one of those in each period: 1 is the first, -1 the last. It ends after
    `count` dates or at `until`."""

    frequency: Frequency
    interval: int
    start: datetime
    weekdays: Sequence[Weekday] = ()
    position: int | None = None
    count: int | None = None
    until: datetime | None = None


def find_next_date(rule: Recurrence, after: datetime, zone: ZoneInfo) -> datetime | None:
    """Return the first date of the rule after a time, or None if it has ended."""
    start = rule.start.astimezone(zone)
    days = _list_days(rule, start.date(), after.astimezone(zone).date())
    for number, day in enumerate(days, start=1):
        moment = datetime.combine(day, start.timetz()).astimezone(UTC)
        if (rule.count and number > rule.count) or (rule.until and moment > rule.until):
            return None
        if moment > after:
            return moment
    return None


def _list_days(rule: Recurrence, start: date, after: date) -> Iterator[date]:
    """Yield the days of the rule. Without a count, those long before `after` are left out."""
    number = 0 if rule.count else _skip_periods(rule, start, after)
    empty = 0
    while empty < MAX_EMPTY_PERIODS:
        try:
            days = _choose_days(rule, start, number * rule.interval)
        except (OverflowError, ValueError):  # after the year 9999
            return
        found = [day for day in days if day >= start]
        yield from found
        empty = 0 if found else empty + 1
        number += 1


def _skip_periods(rule: Recurrence, start: date, after: date) -> int:
    """Return how many periods certainly end before `after`."""
    days = {"daily": 1, "weekly": 7, "monthly": 31, "yearly": 366}[rule.frequency]
    return max(0, (after - start).days // (days * rule.interval) - 2)


def _choose_days(rule: Recurrence, start: date, offset: int) -> Sequence[date]:
    """Return the days of the period `offset` after that of the start."""
    wanted = {_NUMBERS[each] for each in rule.weekdays}
    match rule.frequency:
        case Frequency.DAILY:
            days = _filter([start + timedelta(days=offset)], wanted)
        case Frequency.WEEKLY:
            monday = start - timedelta(days=start.weekday()) + timedelta(weeks=offset)
            week = [monday + timedelta(days=number) for number in range(7)]
            # The first week begins with the start, as in python-dateutil, which PostHog uses.
            days = _filter([day for day in week if day >= start], wanted or {start.weekday()})
        case Frequency.MONTHLY:
            year, month = divmod(start.year * 12 + start.month - 1 + offset, 12)
            first = date(year, month + 1, 1)
            following = date(year + month // 11, (month + 1) % 12 + 1, 1)
            days = _choose(first, following, start, wanted)
        case Frequency.YEARLY:
            first = date(start.year + offset, 1, 1)
            days = _choose(first, date(start.year + offset + 1, 1, 1), start, wanted)
    if rule.position is None:
        return days
    index = rule.position - 1 if rule.position > 0 else rule.position
    return [days[index]] if -len(days) <= index < len(days) else []


def _filter(days: Sequence[date], wanted: set[int]) -> list[date]:
    return [day for day in days if not wanted or day.weekday() in wanted]


def _choose(first: date, following: date, start: date, wanted: set[int]) -> list[date]:
    """Return the days of a month or a year: those weekdays, or the same day as that of the start,
    which not every month and year has."""
    if wanted:
        count = (following - first).days
        return _filter([first + timedelta(days=number) for number in range(count)], wanted)
    is_year = (following - first).days > LONGEST_MONTH_DAYS
    try:
        return [date(first.year, start.month if is_year else first.month, start.day)]
    except ValueError:
        return []


_UNITS = {"daily": "day", "weekly": "week", "monthly": "month", "yearly": "year"}
_ORDINALS = {1: "first", 2: "second", 3: "third", 4: "fourth", -1: "last"}


def describe_recurrence(rule: Recurrence) -> str:
    """Return such as `sent every 2 weeks on Monday`."""
    unit = _UNITS[rule.frequency]
    text = f"sent every {unit}" if rule.interval == 1 else f"sent every {rule.interval} {unit}s"
    if not rule.weekdays:
        return text
    days = ", ".join(each.value.capitalize() for each in Weekday if each in rule.weekdays)
    if set(rule.weekdays) == set(Weekday):
        days = "day"
    if rule.position is not None:
        days = f"the {_ORDINALS.get(rule.position, f'{rule.position}.')} {days}"
    return f"{text} on {days}"
