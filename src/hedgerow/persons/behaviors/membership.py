"""Whether a behavioral filter matches a person with these occurrences, at this time. Pure.

`events/filters/behaviors.py` asks the event store the same questions.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from hedgerow.lib.dates import EPOCH
from hedgerow.persons.behaviors.filters import SEQUENCE_DEPTH, BehavioralFilter, BehaviorKind
from hedgerow.persons.behaviors.times import Occurrences, to_microseconds

# Returns whether a number of occurrences satisfies the filter.
_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "gte": int.__ge__,
    "gt": int.__gt__,
    "lte": int.__le__,
    "lt": int.__lt__,
    "exact": int.__eq__,
}


def matches_behavior(
    filter: BehavioralFilter, event: Occurrences, next: Occurrences, now: datetime
) -> bool:
    """`event` and `next` are the occurrences of the filter's events. The start of a window is not
    part of it, its end is."""
    if event.first is None:
        return False
    start, end = to_microseconds(filter.window.find_start(now)), to_microseconds(now)
    match filter.kind:
        case BehaviorKind.FIRST_TIME:
            return start < event.first <= end
        case BehaviorKind.SEQUENCE:
            return _has_sequence(event.latest, next.latest, filter.within, start, end)
        case BehaviorKind.STOPPED:
            recent = to_microseconds(now - filter.within)
            return _count(event.latest, start, end) > 0 and _count(event.latest, recent, end) == 0
    count = _count(event.latest, start, end)
    # As in PostHog: a person who never did it does not match "at most".
    return count > 0 and _COMPARE[filter.operator](count, filter.count)


def _count(times: Sequence[int], after: int, until: int) -> int:
    return max(0, bisect_right(times, until) - bisect_right(times, after))


def _has_sequence(
    first: Sequence[int], second: Sequence[int], within: timedelta, start: int, end: int
) -> bool:
    """Whether one of the first times is followed by one of the second ones in time."""
    longest = within // timedelta(microseconds=1)
    firsts, seconds = _take_latest(first, end), _take_latest(second, end)
    for time in reversed(firsts):
        if time <= start:
            return False
        place = bisect_right(seconds, time)
        if place < len(seconds) and seconds[place] - time <= longest:
            return True
    return False


def _take_latest(times: Sequence[int], end: int) -> Sequence[int]:
    present = bisect_right(times, end)
    return times[max(0, present - SEQUENCE_DEPTH) : present]


def describe_filter(filter: BehavioralFilter) -> str:
    """Say in words what a filter asks for: "gte 3 times within 30 days"."""
    start = filter.window.start
    if isinstance(start, datetime):
        since = f"since {start.isoformat()}"
    else:
        since = f"since {start}" if isinstance(start, str) else f"within {_format_length(start)}"
    until = f" until {filter.window.until.isoformat()}" if filter.window.until else ""
    match filter.kind:
        case BehaviorKind.MULTIPLE:
            what = f"{filter.operator} {filter.count} times"
        case BehaviorKind.FIRST_TIME:
            what = "for the first time"
        case BehaviorKind.SEQUENCE:
            assert filter.next is not None
            what = f"then {filter.next.key} within {_format_length(filter.within)},"
        case BehaviorKind.STOPPED:
            what = f"but not within {_format_length(filter.within)},"
        case _:
            what = "at least once"
    return f"{what} {since}{until}"


def _format_length(length: timedelta) -> str:
    for unit, seconds in (("day", 86_400), ("hour", 3600)):
        if not length % timedelta(seconds=seconds):
            count = length // timedelta(seconds=seconds)
            return f"{count} {unit}{'' if count == 1 else 's'}"
    return f"{length // timedelta(minutes=1)} minutes"


def describe_occurrences(filter: BehavioralFilter, event: Occurrences, now: datetime) -> str:
    """Say in words what a person did: "2 times, last at 2026-01-31T12:00:00+00:00"."""
    start, end = to_microseconds(filter.window.find_start(now)), to_microseconds(now)
    count = _count(event.latest, start, end)
    place = bisect_right(event.latest, end)
    if not place:
        return "never"
    last = EPOCH + timedelta(microseconds=event.latest[place - 1])
    more = " or more" if count >= filter.event.depth else ""
    return f"{count}{more} times, last at {last.isoformat()}"
