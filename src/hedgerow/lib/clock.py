"""Timestamps: aware, UTC, microseconds. Domain packages receive `now` as an argument.

All processes on one PostgreSQL have its clock: what one stores, the others compare with theirs.
"""

from collections.abc import Callable
from datetime import UTC, datetime

Clock = Callable[[], datetime]

# Smaller corrections are normal, and delay nothing noticeably.
MAX_UNNOTICED_CORRECTION_S = 2.0
# The clocks of synchronized machines differ by less.
MAX_DIFFERENCE_S = 0.1


class SharedClock:
    """The clock of this machine, until it is compared with that of the database. From then on the
    elapsed time counts, so that setting the clock of the machine changes nothing."""

    def __init__(self, read_machine: Clock) -> None:
        self._read_machine = read_machine
        self._read_elapsed_s: Callable[[], float] | None = None
        self._started_s = 0.0

    def now(self) -> datetime:
        if self._read_elapsed_s is None:
            return self._read_machine()
        return datetime.fromtimestamp(self._started_s + self._read_elapsed_s(), UTC)

    def follow(
        self, database_s: float, asked_at_s: float, read_elapsed_s: Callable[[], float]
    ) -> None:
        """Take over the time of the database if it differs. The database was asked at `asked_at_s`
        of the elapsed time, and its answer has just arrived: what it read in between cannot be
        known more exactly."""
        half_trip_s = (read_elapsed_s() - asked_at_s) / 2
        read_at_s = asked_at_s + half_trip_s
        if self._read_elapsed_s is None:
            self._started_s = self._read_machine().timestamp() - read_elapsed_s()
            self._read_elapsed_s = read_elapsed_s
        difference_s = database_s - (self._started_s + read_at_s)
        if abs(difference_s) > half_trip_s + MAX_DIFFERENCE_S:
            self._started_s += difference_s


def read_machine_clock() -> datetime:
    return datetime.now(UTC)


SHARED_CLOCK = SharedClock(read_machine_clock)


def utc_now() -> datetime:
    """Return the time by the clock that all processes on the database share."""
    return SHARED_CLOCK.now()


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
