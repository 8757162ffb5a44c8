from datetime import UTC, datetime, timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st

from hedgerow.lib.clock import MAX_DIFFERENCE_S, SharedClock, format_iso, utc_now
from tests.unit.generated import bounded

HOUR_S = 3600.0


def test_timestamp_is_formatted_in_utc_with_microseconds() -> None:
    assert format_iso(datetime(2026, 3, 1, 12, 30, 5, tzinfo=UTC)) == "2026-03-01T12:30:05.000000Z"


def test_other_time_zones_are_converted_to_utc() -> None:
    oslo = timezone(timedelta(hours=2))
    assert (
        format_iso(datetime(2026, 7, 1, 1, 0, 0, 7, tzinfo=oslo)) == "2026-06-30T23:00:00.000007Z"
    )


@bounded
@given(st.datetimes(timezones=st.just(UTC)))
def test_formatted_timestamp_parses_back(moment: datetime) -> None:
    assert datetime.fromisoformat(format_iso(moment)) == moment


def test_now_is_aware_and_in_utc() -> None:
    assert utc_now().utcoffset() == timedelta(0)


class Machine:
    """A machine with a clock that can be set, and with another one that cannot."""

    def __init__(self) -> None:
        self.clock_s = 1_000_000.0
        self.elapsed_s = 500.0
        self.shared = SharedClock(lambda: datetime.fromtimestamp(self.clock_s, UTC))

    def wait(self, seconds: float) -> None:
        self.clock_s += seconds
        self.elapsed_s += seconds

    def ask(self, ahead_s: float, trip_s: float = 0.0) -> None:
        """Ask a database whose clock is ahead of the right time, which the machine had at first.
        Its answer is from the middle of the trip."""
        asked_at_s = self.elapsed_s
        answer_s = 1_000_000.0 + (asked_at_s - 500.0) + trip_s / 2 + ahead_s
        self.wait(trip_s)
        self.shared.follow(answer_s, asked_at_s, lambda: self.elapsed_s)

    @property
    def error_s(self) -> float:
        """How far the shared clock is ahead of the right time."""
        return round(self.shared.now().timestamp() - (1_000_000.0 + self.elapsed_s - 500.0), 6)


def test_without_a_database_the_clock_of_the_machine_counts() -> None:
    machine = Machine()
    machine.clock_s -= HOUR_S
    assert machine.error_s == -HOUR_S


def test_the_clock_of_the_database_counts() -> None:
    for ahead_s in (-HOUR_S, HOUR_S, 0.2):
        machine = Machine()
        machine.ask(ahead_s)
        assert machine.error_s == ahead_s
        machine.wait(10)
        assert machine.error_s == ahead_s
        machine.ask(0)
        assert machine.error_s == 0


def test_setting_the_clock_of_the_machine_changes_nothing() -> None:
    machine = Machine()
    machine.ask(0)
    for seconds in (-HOUR_S, 2 * HOUR_S):
        machine.clock_s += seconds
        assert machine.error_s == 0
        machine.ask(0)
        assert machine.error_s == 0


def test_a_small_difference_does_not_count() -> None:
    machine = Machine()
    machine.ask(MAX_DIFFERENCE_S / 2)
    assert machine.error_s == 0


def test_a_slow_answer_counts_only_for_what_it_shows() -> None:
    """Within ten seconds the database may have read its clock at any time."""
    machine = Machine()
    machine.ask(4.9, trip_s=10)
    assert machine.error_s == 0
    machine.ask(HOUR_S, trip_s=10)
    assert machine.error_s == HOUR_S
