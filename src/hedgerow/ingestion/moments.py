"""When an event happened: the times that clients write, corrected by how far their clocks are off.

After PostHog's capture: a time that cannot be read, or lies too far ahead, is the time of arrival.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone
from email.utils import parsedate_to_datetime
from typing import Any

INVALID = "ignored_invalid_timestamp"
IN_FUTURE = "event_timestamp_in_future"
OUT_OF_RANGE = "event_timestamp_out_of_range"

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# The event store has no earlier time.
EARLIEST = datetime(1900, 1, 1, tzinfo=UTC)
MAX_AHEAD = timedelta(hours=23)
# A time in seconds that was taken for milliseconds lies before this year.
LAST_UNBELIEVED_YEAR = 2020

_BEGINNING = datetime.min.replace(tzinfo=UTC)
_END = datetime.max.replace(tzinfo=UTC)
_LONGEST = 64
_DATE = r"(?:(\d{4})([-/])(\d{1,2})\2(\d{1,2})|(\d{1,2})/(\d{1,2})/(\d{4}))"
_TIME = r"(\d{1,2}):(\d{2})(?::(\d{2})(?:[.,](\d{1,9}))?)?\s*([AP]M)?"
_ZONE = r"(?:Z|UTC|GMT|([+-])(\d{2}):?(\d{2})?)"
_NUMBERS = re.compile(rf"{_DATE}(?:[T ]\s*{_TIME}\s*{_ZONE}?)?", re.ASCII | re.IGNORECASE)
_RFC_2822 = re.compile(
    r"(?:[a-z]{3},?\s+)?\d{1,2}\s+[a-z]{3}\s+\d{4}\s+\d{1,2}:\d{2}(?::\d{2})?"
    r"(?:\s+(?:[a-z]{1,5}|[+-]\d{4}))?",
    re.ASCII | re.IGNORECASE,
)


class Timekeeper:
    """Dates the events of one request, which came `now`. `sent_at` is when it was sent, by the
    clock of its sender."""

    def __init__(self, now: datetime, sent_at: datetime | None) -> None:
        self._now = now
        self._latest = now + MAX_AHEAD
        self._drift = None if sent_at is None else now - sent_at

    def date(
        self, timestamp: Any, offset: Any, *, is_sent_at_ignored: bool
    ) -> tuple[datetime, Sequence[str]]:
        """When an event happened, and the warnings about it. A timestamp that can be read goes
        before an offset, as PostHog documents it."""
        warnings: Sequence[str] = ()
        moment = None if timestamp is None else parsed(timestamp)
        if moment is None:
            if timestamp is not None:
                warnings = (INVALID,)
            moment = self._before_arrival(offset)
        elif self._drift is not None and not is_sent_at_ignored:
            moment = _shifted(moment, self._drift)
        if moment > self._latest:
            return self._now, (*warnings, IN_FUTURE)
        if moment < EARLIEST:
            return EPOCH, (*warnings, OUT_OF_RANGE)
        return moment, warnings

    def _before_arrival(self, offset_ms: Any) -> datetime:
        if isinstance(offset_ms, bool) or not isinstance(offset_ms, int | float):
            return self._now
        try:
            return _shifted(self._now, timedelta(milliseconds=-offset_ms))
        except OverflowError:
            return _BEGINNING if offset_ms > 0 else _END
        except ValueError:  # not a number
            return self._now


def sent_at(said: Any, query_ms: int | None) -> datetime | None:
    """When a request was sent: what its body says, else its query; None if neither is to be
    believed."""
    for moment in (parsed(said), None if query_ms is None else _since_epoch(query_ms)):
        if moment is not None and moment.year > LAST_UNBELIEVED_YEAR:
            return moment
    return None


def parsed(written: Any) -> datetime | None:
    """A time as clients write it, in UTC; None if it cannot be read. Without a zone it is UTC."""
    if isinstance(written, str):
        if written[10:11] == "T":
            try:
                return _in_utc(datetime.fromisoformat(written))
            except ValueError:
                pass
        return _leniently_parsed(written.strip()) if len(written) <= _LONGEST else None
    if isinstance(written, bool) or not isinstance(written, int):
        return None
    return _from_digits(str(written)) if 0 < written < 10**13 else None


def _leniently_parsed(text: str) -> datetime | None:
    if text.isascii() and text.isdigit():
        return _from_digits(text)
    try:
        if numbers := _NUMBERS.fullmatch(text):
            return _in_utc(_from_numbers(numbers))
        return _in_utc(parsedate_to_datetime(text)) if _RFC_2822.fullmatch(text) else None
    except ValueError:
        return None


def _from_digits(digits: str) -> datetime | None:
    """Seconds since 1970 have ten digits, milliseconds thirteen."""
    if len(digits) == 10:
        return _since_epoch(int(digits) * 1000)
    return _since_epoch(int(digits)) if len(digits) == 13 else None


def _since_epoch(ms: int) -> datetime:
    try:
        return EPOCH + timedelta(milliseconds=ms)
    except OverflowError:
        return _END if ms > 0 else _BEGINNING


def _from_numbers(found: re.Match[str]) -> datetime:
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
    # A leap second has no place of its own here: it is the next minute's first.
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
    return _shifted(moment, timedelta(seconds=1)) if is_leap else moment


def _in_utc(moment: datetime) -> datetime:
    if moment.tzinfo is UTC:
        return moment
    if moment.tzinfo is None:
        return moment.replace(tzinfo=UTC)
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        return _BEGINNING if moment.year < EPOCH.year else _END


def _shifted(moment: datetime, by: timedelta) -> datetime:
    try:
        return moment + by
    except OverflowError:
        return _END if by > timedelta() else _BEGINNING
