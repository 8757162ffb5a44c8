"""Timestamps: aware, UTC, microseconds. Domain packages receive `now` as an argument."""

from collections.abc import Callable
from datetime import UTC, datetime

Clock = Callable[[], datetime]

# Smaller corrections are normal, and delay nothing noticeably.
MAX_UNNOTICED_CORRECTION_S = 2.0


def utc_now() -> datetime:
    return datetime.now(UTC)


def format_iso(moment: datetime) -> str:
    """Format as ISO 8601 in UTC with microseconds and Z, the only form in responses."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"


class ClockWatch:
    """Notices when the clock of the machine is set back: times that were stored before would be
    reached too late."""

    def __init__(self, clock: Clock, monotonic: Callable[[], float]) -> None:
        self._clock = clock
        self._monotonic = monotonic
        self._last_offset_s: float | None = None

    def was_set_back(self, newest: datetime | None = None) -> bool:
        """Return whether the clock was set back since the last call. The first call compares it
        with the newest stored time."""
        now = self._clock().timestamp()
        last_s, self._last_offset_s = self._last_offset_s, now - self._monotonic()
        if last_s is None:
            return newest is not None and now < newest.timestamp() - MAX_UNNOTICED_CORRECTION_S
        return self._last_offset_s < last_s - MAX_UNNOTICED_CORRECTION_S

    @property
    def is_new(self) -> bool:
        """Whether nothing was compared yet."""
        return self._last_offset_s is None
