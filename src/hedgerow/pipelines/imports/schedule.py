"""Schedules of imports: intervals, or cron expressions in UTC."""

import re
from datetime import UTC, datetime, timedelta

from cronsim import CronSim, CronSimError

from hedgerow.errors import Invalid
from hedgerow.lib.text import truncate

ATTR = "config__schedule"
REFERENCE_TIME = datetime(2026, 1, 1, tzinfo=UTC)
MIN_INTERVAL = timedelta(minutes=1)
MAX_INTERVAL = timedelta(days=366)

_INTERVAL = re.compile(r"(\d{1,5})([mhd])", re.ASCII)
_UNITS = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1)}


def check_schedule(text: str) -> None:
    """Raise Invalid unless the text is a schedule or empty."""
    if text and next_run(text, REFERENCE_TIME, None) is None:
        raise Invalid(
            f'Invalid schedule "{truncate(text)}". Use an interval such as 15m, 6h or 1d, or a '
            "cron expression such as 0 4 * * * (UTC).",
            attr=ATTR,
        )


def next_run(text: str, now: datetime, last: datetime | None) -> datetime | None:
    """Return the next run in UTC; None for an invalid schedule or one without further runs.

    An interval starts immediately if there was no `last` run. Missed runs are made up for once.
    """
    if found := _INTERVAL.fullmatch(text.strip()):
        every = int(found[1]) * _UNITS[found[2]]
        if not MIN_INTERVAL <= every <= MAX_INTERVAL:
            return None
        if last is None:
            return now
        return last + every if last + every > now else now + every
    try:
        return next(CronSim(text.strip(), now.astimezone(UTC)))
    except (CronSimError, StopIteration):
        return None
