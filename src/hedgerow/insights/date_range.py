"""The date range of an insight, cut into intervals in the project's time zone.

Dates follow PostHog: a range without a time of day contains its whole last day, and the first
interval is complete, unless it is a week or the client sends `explicitDate`.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from functools import cached_property
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.events.filters.conditions import QueryTime
from hedgerow.hogql.ast import Compare, Expr
from hedgerow.hogql.builders import all_of, call, compare, constant
from hedgerow.lib.clock import format_iso
from hedgerow.lib.dates import EARLIEST, LATEST, parse_query_date
from hedgerow.projects.model import WeekStart
from hedgerow.projects.validation import parse_date_parameter
from hedgerow.queries.fields import QueryFields

DEFAULT_FROM = "-7d"
MAX_INTERVALS = 2_000
ALL_TIME = "all"

TICK = timedelta(microseconds=1)
_TIME_OF_DAY = re.compile(r"\d[T ]\d")
_RELATIVE = re.compile(r"[+-]?(\d*)([shdwmqyM])(Start|End)?", re.ASCII)
# The units of relative dates with a time of day: seconds, minutes and hours.
_CLOCK_UNITS = "sMh"
# What comes before "this week", "this month" and so on.
_WHOLE_UNITS = {"wStart": "-1w", "mStart": "-1m", "qStart": "-1q", "yStart": "-1y"}
_SECONDS = {"second": 1, "minute": 60, "hour": 3600}


class Interval(StrEnum):
    SECOND = "second"
    MINUTE = "minute"
    HOUR = "hour"
    DAY = "day"
    WEEK = "week"
    MONTH = "month"

    @property
    def has_time_of_day(self) -> bool:
        return self in (Interval.SECOND, Interval.MINUTE, Interval.HOUR)

    def start_of(self, moment: datetime, week_start: WeekStart = WeekStart.SUNDAY) -> datetime:
        """Return the start of the interval that contains a local time."""
        match self:
            case Interval.SECOND:
                return moment.replace(microsecond=0)
            case Interval.MINUTE:
                return moment.replace(second=0, microsecond=0)
            case Interval.HOUR:
                return moment.replace(minute=0, second=0, microsecond=0)
        day = datetime.combine(moment.date(), time.min, moment.tzinfo)
        match self:
            case Interval.WEEK:
                return day - timedelta(days=(day.isoweekday() - week_start) % 7)
            case Interval.MONTH:
                return day.replace(day=1)
        return day

    def add_to(self, start: datetime, count: int) -> datetime:
        """Return the start of the interval `count` later. Hours and minutes are elapsed time, also
        across a clock change."""
        if seconds := _SECONDS.get(self):
            return (start.astimezone(UTC) + timedelta(seconds=seconds * count)).astimezone(
                start.tzinfo
            )
        if self is Interval.MONTH:
            year, month = divmod(start.year * 12 + start.month - 1 + count, 12)
            return start.replace(year=year, month=month + 1)
        return start + timedelta(days=count * (7 if self is Interval.WEEK else 1))

    def end_of(self, start: datetime) -> datetime:
        """Return the last moment of the interval that begins at `start`."""
        following = self.add_to(start, 1).astimezone(UTC)
        # In UTC: the local time before a clock change may not exist, or exist twice.
        return (following - TICK).astimezone(start.tzinfo)


@dataclass(frozen=True, kw_only=True)
class DateRange:
    """Local times: events from `start` to `end`, both included, in intervals of which the first
    begins at or before `start`."""

    start: datetime
    end: datetime
    interval: Interval
    week_start: WeekStart = WeekStart.SUNDAY

    @cached_property
    def first(self) -> datetime:
        return self.interval.start_of(self.start, self.week_start)

    @cached_property
    def interval_starts(self) -> Sequence[datetime]:
        found: list[datetime] = []
        end = self.end.astimezone(UTC)
        while (start := self.interval.add_to(self.first, len(found))).astimezone(UTC) <= end:
            found.append(start)
        return found

    @property
    def days(self) -> list[str]:
        """The starts of the intervals as PostHog writes them."""
        form = "%Y-%m-%d %H:%M:%S" if self.interval.has_time_of_day else "%Y-%m-%d"
        return [each.strftime(form) for each in self.interval_starts]

    @property
    def labels(self) -> list[str]:
        """The names of the intervals, as PostHog shows them."""
        if self.interval is Interval.WEEK:
            return [self._label_week(each) for each in self.interval_starts]
        if self.interval is Interval.MONTH:
            return [f"{each:%b %Y}" for each in self.interval_starts]
        if self.interval is Interval.DAY:
            return self.day_labels
        form = "-%b %H:%M:%S" if self.interval is Interval.SECOND else "-%b %H:%M"
        return [f"{each.day}{each:{form}}" for each in self.interval_starts]

    @property
    def day_labels(self) -> list[str]:
        """The days on which the intervals begin."""
        return [_label_day(each) for each in self.interval_starts]

    def _label_week(self, start: datetime) -> str:
        """Name the days of a week that are in the range."""
        first = max(start.date(), self.start.date())
        last = max(min(start.date() + timedelta(days=6), self.end.date()), first)
        if first == last:
            return _label_day(first)
        if first.year != last.year:
            return f"{_label_day(first)} – {_label_day(last)}"
        if first.month != last.month:
            return f"{first.day}-{first:%b} – {last.day}-{last:%b}"
        return f"{first.day}–{last.day} {last:%b}"

    def describe(self) -> dict[str, str]:
        return {"date_from": format_iso(self.start), "date_to": format_iso(self.end)}

    def contains(self, timestamp: Expr) -> Expr:
        return all_of(
            [
                compare(timestamp, Compare.GT_EQ, constant(self.start)),
                compare(timestamp, Compare.LT_EQ, constant(self.end)),
            ]
        )

    def number_interval(self, timestamp: Expr) -> Expr:
        """Build the number of the interval that contains a time, from 0."""
        if seconds := _SECONDS.get(self.interval):
            elapsed = call(
                "minus",
                call("toUnixTimestamp", timestamp),
                constant(int(self.first.timestamp())),
            )
            return call("intDiv", elapsed, constant(seconds))
        unit = "month" if self.interval is Interval.MONTH else "day"
        zone = constant(str(self.first.tzinfo))
        count = call("dateDiff", constant(unit), constant(self.first), timestamp, zone)
        return call("intDiv", count, constant(7)) if self.interval is Interval.WEEK else count

    def narrow_to(self, number: int) -> "DateRange":
        """Return the part within one interval."""
        start = self.interval.add_to(self.first, number)
        end = self.interval.end_of(start)
        return replace(
            self,
            start=max(start, self.start, key=datetime.timestamp),
            end=min(end, self.end, key=datetime.timestamp),
        )


def _label_day(day: date) -> str:
    return f"{day.day}-{day:%b-%Y}"


def parse_interval(fields: QueryFields, name: str = "interval") -> Interval:
    sent = fields.text(name).lower() or Interval.DAY
    try:
        return Interval(sent)
    except ValueError:
        detail = f"Expected one of: {', '.join(Interval)}."
        raise Invalid(detail, attr=fields.attr(name), code="invalid_choice") from None


def parse_date_range(
    sent: Mapping[str, Any], interval: Interval, query_time: QueryTime, earliest: datetime | None
) -> DateRange:
    """Parse `dateRange`. `earliest` is the time of the first event, for `date_from: "all"`."""
    fields = QueryFields(sent, "query__dateRange")
    zone = query_time.zone
    fields.refuse_value("daysOfWeek", "Days of the week are not supported.")
    is_exact = fields.boolean("explicitDate")
    from_text = fields.text("date_from") or DEFAULT_FROM
    if from_text == ALL_TIME:
        start = (earliest or query_time.now).astimezone(zone)
    else:
        start = _parse(fields, "date_from", from_text, query_time)
    if not is_exact:
        start = _round_start(start, from_text, interval)
    end = parse_range_end(sent, interval, query_time)
    if start > end:
        raise Invalid("date_from is after date_to.", attr=fields.attr("date_from"))
    if fields.boolean("excludeIncompletePeriods"):
        end = _cut_incomplete(start, end, interval, query_time)
    found = DateRange(start=start, end=end, interval=interval, week_start=query_time.week_start)
    _check_size(found, fields)
    return found


def _cut_incomplete(
    start: datetime, end: datetime, interval: Interval, query_time: QueryTime
) -> datetime:
    """Return the end of the last interval that is over, if the range goes beyond it."""
    now = query_time.now.astimezone(query_time.zone)
    current = interval.start_of(now, query_time.week_start).astimezone(UTC)
    if start.astimezone(UTC) >= current:
        detail = f"The range has no complete {interval}."
        raise Invalid(detail, attr="query__dateRange__excludeIncompletePeriods")
    return min(end, (current - TICK).astimezone(query_time.zone), key=datetime.timestamp)


def parse_range_end(sent: Mapping[str, Any], interval: Interval, query_time: QueryTime) -> datetime:
    """Parse the end of a `dateRange`: now if there is none, and the end of its day or interval
    unless it is exact."""
    fields = QueryFields(sent, "query__dateRange")
    text = fields.text("date_to")
    end = _parse(fields, "date_to", text, query_time) if text else query_time.now
    end = end.astimezone(query_time.zone)
    if text and fields.boolean("explicitDate"):
        return end
    return _end_of_range(end, text, interval)


def _parse(fields: QueryFields, name: str, text: str, query_time: QueryTime) -> datetime:
    moment = parse_date_parameter(text, query_time.now, query_time.zone, fields.attr(name))
    # A little within the limits, so that a day more or less can be written.
    margin = timedelta(days=32)
    return min(max(moment, EARLIEST + margin), LATEST - margin).astimezone(query_time.zone)


def _drops_time_of_day(text: str) -> bool:
    """`-7d` is the start of that day; `-24h` and `2026-01-31T12:00` are exact."""
    if found := _RELATIVE.fullmatch(text):
        return found[2] not in _CLOCK_UNITS
    return not _TIME_OF_DAY.search(text)


def _round_start(start: datetime, text: str, interval: Interval) -> datetime:
    """Return the start of the first interval. A first week begins with the day of the start, and
    a number of hours before now with a whole hour, in minutes or seconds with an exact time."""
    if _drops_time_of_day(text):
        start = Interval.DAY.start_of(start)
    elif _RELATIVE.fullmatch(text) and interval is not Interval.MONTH:
        is_short = interval in (Interval.SECOND, Interval.MINUTE)
        return start if is_short else Interval.HOUR.start_of(start)
    return (Interval.DAY if interval is Interval.WEEK else interval).start_of(start)


def _end_of_range(end: datetime, text: str, interval: Interval) -> datetime:
    if not interval.has_time_of_day or (text and _drops_time_of_day(text)):
        return Interval.DAY.end_of(Interval.DAY.start_of(end))
    if text and not _RELATIVE.fullmatch(text):
        return end
    return interval.end_of(interval.start_of(end))


def _check_size(found: DateRange, fields: QueryFields) -> None:
    length = found.end.astimezone(UTC) - found.start.astimezone(UTC)
    seconds = {"day": 86_400, "week": 604_800, "month": 28 * 86_400} | _SECONDS
    if length.total_seconds() / seconds[found.interval] > MAX_INTERVALS:
        detail = (
            f"The range has more than {MAX_INTERVALS} intervals of one {found.interval}. "
            "Choose a longer interval or a shorter range."
        )
        raise Invalid(detail, attr=fields.attr("date_from"), code="query_limit_exceeded")


def shift_to_previous(current: DateRange, sent: Mapping[str, Any]) -> DateRange:
    """Return the period before, of the same length. As in PostHog, days of whole weeks such as
    `-7d` until now compare with the same days of the week, and a range from the start of a week,
    month, quarter or year until now compares with all of the one before."""
    if found := _find_whole_unit(current, sent):
        return found
    length = current.end - current.start
    start = current.start - length
    if current.interval in (Interval.SECOND, Interval.MINUTE):
        return replace(current, start=start, end=start + length)
    start = datetime.combine(start.date(), current.start.timetz())
    if current.interval is Interval.DAY and _is_weeks_until_now(sent):
        start += timedelta(days=1)
    return replace(current, start=start, end=start + length)


def _is_weeks_until_now(sent: Mapping[str, Any]) -> bool:
    found = _RELATIVE.fullmatch(str(sent.get("date_from") or DEFAULT_FROM))
    is_weeks = found and found[2] == "d" and found[1] and int(found[1]) % 7 == 0
    is_until_now = not sent.get("date_to") and not sent.get("excludeIncompletePeriods")
    return bool(is_weeks) and is_until_now


def _find_whole_unit(current: DateRange, sent: Mapping[str, Any]) -> DateRange | None:
    """Return all of the week, month, quarter or year before that of a range until now."""
    unit = _WHOLE_UNITS.get(str(sent.get("date_from")))
    if unit is None or sent.get("date_to"):
        return None
    last = (current.start.astimezone(UTC) - TICK).astimezone(current.start.tzinfo)
    zone = current.start.tzinfo
    assert zone is not None
    start = parse_query_date(unit, current.start, zone).astimezone(zone)
    return replace(current, start=start, end=last)
