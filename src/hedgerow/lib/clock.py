"""Timestamps: aware, UTC, microseconds. Domain packages receive `now` as an argument."""

from collections.abc import Callable
from datetime import UTC, datetime

Clock = Callable[[], datetime]


def utc_now() -> datetime:
    return datetime.now(UTC)


def format_iso(moment: datetime) -> str:
    """Format as ISO 8601 in UTC with microseconds and Z, the only form in responses."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"
