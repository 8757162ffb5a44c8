"""The one reader of dates and times written by clients.

PostHog's endpoints accept different inputs, so each has its own function here:

- `parse_event_timestamp`: the time of a captured event;
- `parse_property_date` and `parse_relative_date`: a property value or a filter value;
- `parse_query_date`: a parameter such as `after`, absolute or relative;
- `parse_stored_date`: a date to be stored with a record;
- `parse_iso_date`: ISO 8601 only.
"""

import calendar
import re
from datetime import UTC, datetime, time, timedelta, timezone, tzinfo
from email.utils import parsedate_to_datetime
from typing import Any

from hedgerow.lib.text import parse_number

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# The range of times that the event store can hold.
EARLIEST = datetime(1900, 1, 1, tzinfo=UTC)
LATEST = datetime(2299, 12, 31, tzinfo=UTC)
MAX_DATE_CHARS = 64

# The range of times that Python can hold.
_MIN = datetime.min.replace(tzinfo=UTC)
_MAX = datetime.max.replace(tzinfo=UTC)
_SLASHED = re.compile(r"^(\d{4})/(\d{2})/(\d{2})", re.ASCII)
_RELATIVE = re.compile(r"-?0{0,100}(\d{1,4})([hdwmy])", re.ASCII)
# In a query, m is a month and M a minute.
_QUERY_RELATIVE = re.compile(r"(?:([+-]?)(\d{1,4}))?([shdwmqyM])(Start|End)?", re.ASCII)
_CLOCK_UNITS = {"s": timedelta(seconds=1), "M": timedelta(minutes=1), "h": timedelta(hours=1)}
_DATE = r"(?:(\d{4})([-/])(\d{1,2})\2(\d{1,2})|(\d{1,2})/(\d{1,2})/(\d{4}))"
_TIME = r"(\d{1,2}):(\d{2})(?::(\d{2})(?:[.,](\d{1,9}))?)?\s*([AP]M)?"
_ZONE = r"(?:Z|UTC|GMT|([+-])(\d{2}):?(\d{2})?)"
_NUMERIC = re.compile(rf"{_DATE}(?:[T ]\s*{_TIME}\s*{_ZONE}?)?", re.ASCII | re.IGNORECASE)
_RFC_2822 = re.compile(
    r"(?:[a-z]{3},?\s+)?\d{1,2}\s+[a-z]{3}\s+\d{4}\s+\d{1,2}:\d{2}(?::\d{2})?"
    r"(?:\s+(?:[a-z]{1,5}|[+-]\d{4}))?",
    re.ASCII | re.IGNORECASE,
)


def parse_event_timestamp(value: Any) -> datetime | None:
    """Parse a timestamp as SDKs write it. Returns UTC, or None if it cannot be parsed.

    Accepts ISO 8601, `2026/01/31 1:30 PM`, `01/31/2026`, RFC 2822, and seconds (10 digits) or
    milliseconds (13 digits) since 1970. A time without a zone is in UTC.
    """
    if isinstance(value, str):
        if value[10:11] == "T":
            try:
                return _to_utc(datetime.fromisoformat(value))
            except ValueError:
                pass
        return _parse_lenient(value.strip()) if len(value) <= MAX_DATE_CHARS else None
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return _parse_digits(str(value)) if 0 < value < 10**13 else None


def parse_property_date(value: Any, zone: tzinfo) -> datetime | None:
    """Parse a number of seconds since 1970, or a date as text, which without an offset is in
    `zone`. Returns UTC, or None if the value is not a date."""
    if value.__class__ is str and value[4:5] == "-" and len(value) <= MAX_DATE_CHARS:
        # Most dates: nothing that begins like 2026- is a number or needs the slower steps.
        try:
            return _from_zone(datetime.fromisoformat(value), zone)
        except (ValueError, OverflowError):
            pass
    seconds = parse_number(value)
    try:
        if seconds is not None:
            return datetime.fromtimestamp(seconds, UTC)
        if not isinstance(value, str) or len(value) > MAX_DATE_CHARS:
            return None
        return _from_zone(_parse_iso_or_rfc(value.strip()), zone)
    except (ValueError, TypeError, IndexError, OverflowError, OSError):
        return None


def _from_zone(moment: datetime, zone: tzinfo) -> datetime:
    """Return UTC, so that the two occurrences of an hour that a clock change repeats differ."""
    return (moment if moment.tzinfo else moment.replace(tzinfo=zone)).astimezone(UTC)


def is_relative_date(text: str) -> bool:
    return _RELATIVE.fullmatch(text) is not None


def parse_relative_date(text: str, now: datetime) -> datetime | None:
    """Parse `7d` or `-7d`: that long before `now`. Months and years follow the calendar."""
    found = _RELATIVE.fullmatch(text)
    if found is None:
        return None
    number, unit = int(found[1]), found[2]
    try:
        if unit == "h":
            return now - timedelta(hours=number)
        return _subtract_days_or_months(now, number, unit)
    except (ValueError, OverflowError):
        return None


def parse_query_date(text: str, now: datetime, zone: tzinfo) -> datetime:
    """Parse a date parameter, such as `2026-01-31`, `-7d`, `-1mStart` or `dStart` (the start of
    today), in `zone`. Returns UTC, within what the event store can hold. Raises ValueError."""
    try:
        moment = _parse_query_relative(text, now.astimezone(zone)) or _parse_absolute(text, zone)
        return min(max(moment.astimezone(UTC), EARLIEST), LATEST)
    except (TypeError, IndexError, OverflowError) as error:
        raise ValueError(text) from error


def parse_stored_date(value: Any) -> datetime:
    """Parse an absolute date that is stored with a record; without an offset it is in UTC. Raises
    ValueError, also for a date that the event store cannot hold."""
    if not isinstance(value, str):
        raise ValueError
    try:
        moment = _parse_absolute(value, UTC).astimezone(UTC)
    except (TypeError, IndexError, OverflowError) as error:
        raise ValueError(value) from error
    if not EARLIEST <= moment <= LATEST:
        raise ValueError(value)
    return moment


def parse_iso_date(text: str, zone: tzinfo) -> datetime:
    """Parse ISO 8601; without an offset it is in `zone`. Raises ValueError."""
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=zone)


def parse_epoch_ms(ms: int) -> datetime:
    """Convert milliseconds since 1970. A time that Python cannot hold becomes the nearest one."""
    try:
        return EPOCH + timedelta(milliseconds=ms)
    except OverflowError:
        return _MAX if ms > 0 else _MIN


def shift_time(moment: datetime, by: timedelta) -> datetime:
    """Add a duration. A time that Python cannot hold becomes the nearest one."""
    try:
        return moment + by
    except OverflowError:
        return _MAX if by > timedelta() else _MIN


def subtract_ms(moment: datetime, ms: float) -> datetime:
    """Subtract milliseconds, as `shift_time` does. Raises ValueError for NaN."""
    try:
        return shift_time(moment, timedelta(milliseconds=-ms))
    except OverflowError:
        return _MIN if ms > 0 else _MAX


def _parse_iso_or_rfc(text: str) -> datetime:
    """Parse ISO 8601, also with slashes or with the zone named UTC or GMT; else RFC 2822."""
    plain = _SLASHED.sub(r"\1-\2-\3", text)
    if plain.endswith((" UTC", " GMT")) and plain[:4].isdecimal():
        plain = plain[:-4] + "+00:00"
    try:
        return datetime.fromisoformat(plain)
    except ValueError:
        return parsedate_to_datetime(text)


def _parse_absolute(text: str, zone: tzinfo) -> datetime:
    if len(text) > MAX_DATE_CHARS:
        raise ValueError(text)
    seconds = parse_number(text)
    if seconds is not None and len(text) > len("20260131"):
        return EPOCH + timedelta(seconds=seconds)
    # In a query string, the plus sign of an offset arrives as a space unless it was escaped.
    moment = _parse_iso_or_rfc(re.sub(r" (\d\d:?\d\d)$", r"+\1", text.strip()))
    return moment if moment.tzinfo else moment.replace(tzinfo=zone)


def _parse_query_relative(text: str, now: datetime) -> datetime | None:
    found = _QUERY_RELATIVE.fullmatch(text)
    if found is None or (found[2] is None and found[4] is None):
        return None
    number, unit, edge = int(found[2] or 0), found[3], found[4]
    moment = _subtract(now, -number if found[1] == "+" else number, unit)
    if edge is None:
        return moment
    start = _start_of_unit(moment, unit)
    return start if edge == "Start" else _subtract(start, -1, unit) - timedelta(microseconds=1)


def _subtract(moment: datetime, number: int, unit: str) -> datetime:
    if (size := _CLOCK_UNITS.get(unit)) is not None:  # elapsed time, also across a clock change
        return (moment.astimezone(UTC) - size * number).astimezone(moment.tzinfo)
    return _subtract_days_or_months(moment, number, unit)


def _subtract_days_or_months(moment: datetime, number: int, unit: str) -> datetime:
    match unit:
        case "d":
            return moment - timedelta(days=number)
        case "w":
            return moment - timedelta(weeks=number)
        case "m":
            return _subtract_months(moment, number)
        case "q":
            return _subtract_months(moment, 3 * number)
        case _:
            return _subtract_months(moment, 12 * number)


def _subtract_months(moment: datetime, months: int) -> datetime:
    year, month = divmod(moment.year * 12 + moment.month - 1 - months, 12)
    last_day = calendar.monthrange(year, month + 1)[1]
    return moment.replace(year=year, month=month + 1, day=min(moment.day, last_day))


def _start_of_unit(moment: datetime, unit: str) -> datetime:
    match unit:
        case "s":
            return moment.replace(microsecond=0)
        case "M":
            return moment.replace(second=0, microsecond=0)
        case "h":
            return moment.replace(minute=0, second=0, microsecond=0)
    day = datetime.combine(moment.date(), time.min, moment.tzinfo)
    match unit:
        case "d":
            return day
        case "w":  # weeks begin on Monday
            return day - timedelta(days=day.weekday())
        case "m":
            return day.replace(day=1)
        case "q":
            return day.replace(month=(day.month - 1) // 3 * 3 + 1, day=1)
        case _:
            return day.replace(month=1, day=1)


def _parse_lenient(text: str) -> datetime | None:
    if text.isascii() and text.isdigit():
        return _parse_digits(text)
    try:
        if numeric := _NUMERIC.fullmatch(text):
            return _to_utc(_build_from_match(numeric))
        return _to_utc(parsedate_to_datetime(text)) if _RFC_2822.fullmatch(text) else None
    except ValueError:
        return None


def _parse_digits(digits: str) -> datetime | None:
    """Ten digits are seconds since 1970, thirteen are milliseconds."""
    if len(digits) == 10:
        return parse_epoch_ms(int(digits) * 1000)
    return parse_epoch_ms(int(digits)) if len(digits) == 13 else None


def _build_from_match(found: re.Match[str]) -> datetime:
    year, _, month, day, us_month, us_day, us_year = found.groups()[:7]
    hour, minute, second, fraction, half, sign, zone_h, zone_m = found.groups()[7:]
    hours = int(hour or 0)
    if half:
        if not 1 <= hours <= 12:
            raise ValueError(f"no such hour: {hours} {half}")
        hours = hours % 12 + (12 if half.upper() == "PM" else 0)
    zone = UTC
    if sign:
        east = timedelta(hours=int(zone_h), minutes=int(zone_m or 0))
        zone = timezone(east if sign == "+" else -east)
    # Python has no leap second: it becomes the first second of the next minute.
    is_leap = second == "60"
    moment = datetime(
        int(year or us_year),
        int(month or us_month),
        int(day or us_day),
        hours,
        int(minute or 0),
        59 if is_leap else int(second or 0),
        int((fraction or "")[:6].ljust(6, "0")),
        zone,
    )
    return shift_time(moment, timedelta(seconds=1)) if is_leap else moment


def _to_utc(moment: datetime) -> datetime:
    if moment.tzinfo is UTC:
        return moment
    if moment.tzinfo is None:
        return moment.replace(tzinfo=UTC)
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        return _MIN if moment.year < EPOCH.year else _MAX
