"""What `after` and `before` say: a moment, a day, or so long ago; without an offset it is in the
project's time zone. And dates that are kept, which without one are in UTC.
"""

import re
from datetime import UTC, datetime, time, timedelta, tzinfo
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.filters.values import as_number, months_before, read_date
from hedgerow.lib.text import cut_short

LONGEST = 64
# What the event store can hold: who asks beyond asks for nothing more.
EARLIEST = datetime(1900, 1, 1, tzinfo=UTC)
LATEST = datetime(2299, 12, 31, tzinfo=UTC)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_RELATIVE = re.compile(r"(?:([+-]?)(\d{1,4}))?([hdwmqy])(Start|End)?", re.ASCII)


def asked_moment(text: str, now: datetime, zone: tzinfo, attr: str) -> datetime:
    """In UTC. Invalid, with the name of the parameter, for what is no date."""
    try:
        moment = _relative(text, now.astimezone(zone)) or _absolute(text, zone)
        return min(max(moment.astimezone(UTC), EARLIEST), LATEST)
    except (ValueError, TypeError, IndexError, OverflowError):
        detail = (
            f'"{cut_short(text)}" is no date. Give one such as 2026-01-31, 2026-01-31T12:00:00Z, '
            "-7d or -1mStart."
        )
        raise Invalid(detail, attr=attr, code="invalid_date") from None


def kept_moment(said: Any) -> datetime:
    """In UTC. ValueError for what is no date, or none that can be kept."""
    if not isinstance(said, str):
        raise ValueError
    try:
        moment = _absolute(said, UTC).astimezone(UTC)
    except (TypeError, IndexError, OverflowError) as error:
        raise ValueError from error
    if not EARLIEST <= moment <= LATEST:
        raise ValueError
    return moment


def _absolute(text: str, zone: tzinfo) -> datetime:
    if len(text) > LONGEST:
        raise ValueError
    seconds = as_number(text)
    if seconds is not None and len(text) > len("20260131"):
        return _EPOCH + timedelta(seconds=seconds)
    # In a query, an offset's plus sign becomes a space unless it was quoted.
    moment = read_date(re.sub(r" (\d\d:?\d\d)$", r"+\1", text.strip()))
    return moment if moment.tzinfo else moment.replace(tzinfo=zone)


def _relative(text: str, now: datetime) -> datetime | None:
    """`-7d`, `-24h`, `-1mStart`; `dStart` is the beginning of today."""
    found = _RELATIVE.fullmatch(text)
    if found is None or (found[2] is None and found[4] is None):
        return None
    back = int(found[2] or 0) * (-1 if found[1] == "+" else 1)
    moment = _before(now, back, found[3])
    if found[4] is None:
        return moment
    start = _start(moment, found[3])
    return (
        start if found[4] == "Start" else _before(start, -1, found[3]) - timedelta(microseconds=1)
    )


def _before(moment: datetime, number: int, unit: str) -> datetime:
    match unit:
        case "h":  # of time that passes: clocks may be changed meanwhile
            return (moment.astimezone(UTC) - timedelta(hours=number)).astimezone(moment.tzinfo)
        case "d":
            return moment - timedelta(days=number)
        case "w":
            return moment - timedelta(weeks=number)
        case "m":
            return months_before(moment, number)
        case "q":
            return months_before(moment, 3 * number)
        case _:
            return months_before(moment, 12 * number)


def _start(moment: datetime, unit: str) -> datetime:
    if unit == "h":
        return moment.replace(minute=0, second=0, microsecond=0)
    day = datetime.combine(moment.date(), time.min, moment.tzinfo)
    match unit:
        case "d":
            return day
        case "w":  # weeks begin on Mondays
            return day - timedelta(days=day.weekday())
        case "m":
            return day.replace(day=1)
        case "q":
            return day.replace(month=(day.month - 1) // 3 * 3 + 1, day=1)
        case _:
            return day.replace(month=1, day=1)
