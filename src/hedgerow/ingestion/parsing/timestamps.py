"""Determine when an event happened: the client's timestamp, corrected for its clock skew.

As in PostHog, the time of arrival replaces a timestamp that is malformed or too far in the future.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from hedgerow.lib.dates import (
    EARLIEST,
    EPOCH,
    parse_epoch_ms,
    parse_event_timestamp,
    shift_time,
    subtract_ms,
)

INVALID = "ignored_invalid_timestamp"
IN_FUTURE = "event_timestamp_in_future"
OUT_OF_RANGE = "event_timestamp_out_of_range"

MAX_AHEAD = timedelta(hours=23)
# A `sent_at` in seconds that is read as milliseconds falls into 1970.
LAST_IMPLAUSIBLE_YEAR = 2020


class TimestampNormalizer:
    """Normalizes the timestamps of one request. `now` is the time of arrival, `sent_at` the time of
    sending by the client's clock."""

    def __init__(self, now: datetime, sent_at: datetime | None) -> None:
        self._now = now
        self._latest = now + MAX_AHEAD
        self._skew = None if sent_at is None else now - sent_at

    def normalize(
        self, timestamp: Any, offset: Any, *, ignore_sent_at: bool
    ) -> tuple[datetime, Sequence[str]]:
        """Return the time of an event and the types of warnings. A valid timestamp takes precedence
        over an offset, as PostHog documents it."""
        warnings: Sequence[str] = ()
        moment = None if timestamp is None else parse_event_timestamp(timestamp)
        if moment is None:
            if timestamp is not None:
                warnings = (INVALID,)
            moment = self._subtract_offset(offset)
        elif self._skew is not None and not ignore_sent_at:
            moment = shift_time(moment, self._skew)
        if moment > self._latest:
            return self._now, (*warnings, IN_FUTURE)
        if moment < EARLIEST:
            return EPOCH, (*warnings, OUT_OF_RANGE)
        return moment, warnings

    def _subtract_offset(self, offset_ms: Any) -> datetime:
        if isinstance(offset_ms, bool) or not isinstance(offset_ms, int | float):
            return self._now
        try:
            return subtract_ms(self._now, offset_ms)
        except ValueError:  # NaN
            return self._now


def parse_sent_at(body_value: Any, query_ms: int | None) -> datetime | None:
    """Parse the time of sending from the body, or else from the query. None if neither is
    plausible."""
    for moment in (
        parse_event_timestamp(body_value),
        None if query_ms is None else parse_epoch_ms(query_ms),
    ):
        if moment is not None and moment.year > LAST_IMPLAUSIBLE_YEAR:
            return moment
    return None
