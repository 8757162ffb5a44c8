"""When an import runs by itself: every so often, or by a line of cron, in UTC."""

import re
from datetime import UTC, datetime, timedelta

from cronsim import CronSim, CronSimError

from hedgerow.errors import Invalid
from hedgerow.lib.text import cut_short

ATTR = "config__schedule"
ANY_TIME = datetime(2026, 1, 1, tzinfo=UTC)
SHORTEST = timedelta(minutes=1)
LONGEST = timedelta(days=366)

_INTERVAL = re.compile(r"(\d{1,5})([mhd])", re.ASCII)
_UNITS = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1)}


def check_schedule(text: str) -> None:
    """Raise Invalid for what is no schedule. None at all is one."""
    if text and next_run(text, ANY_TIME, None) is None:
        raise Invalid(
            f'"{cut_short(text)}" is no schedule. Give an interval such as 15m, 6h or 1d, or a '
            "line of cron such as 0 4 * * * (UTC).",
            attr=ATTR,
        )


def next_run(text: str, now: datetime, last: datetime | None) -> datetime | None:
    """When to run next, in UTC, after the `last` time if there was one: an interval begins at once.
    What was missed is made up for once. None for what is no schedule, or comes to no end."""
    if found := _INTERVAL.fullmatch(text.strip()):
        every = int(found[1]) * _UNITS[found[2]]
        if not SHORTEST <= every <= LONGEST:
            return None
        if last is None:
            return now
        return last + every if last + every > now else now + every
    try:
        return next(CronSim(text.strip(), now.astimezone(UTC)))
    except (CronSimError, StopIteration):
        return None
