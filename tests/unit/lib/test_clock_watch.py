"""A clock that is set back is noticed; a correct one, and one that is set forward, is not."""

from datetime import timedelta

from hedgerow.lib.clock import ClockWatch
from tests.unit.fake_time import START


def test_a_clock_that_is_set_back_is_noticed_once() -> None:
    moments = iter([0.0, 1.0, 1.5, 3602.5, 2.5, 3.5])
    seconds = iter([100.0, 101.0, 102.0, 103.0, 104.0, 105.0])
    watch = ClockWatch(lambda: START + timedelta(seconds=next(moments)), lambda: next(seconds))
    assert [watch.was_set_back() for _ in range(6)] == [False, False, False, False, True, False]


def test_the_first_call_compares_with_the_newest_stored_time() -> None:
    for newest_s, was_set_back in ((-5, False), (1, False), (3600, True)):
        watch = ClockWatch(lambda: START, lambda: 0.0)
        assert watch.is_new
        assert watch.was_set_back(START + timedelta(seconds=newest_s)) is was_set_back
        assert not watch.is_new
