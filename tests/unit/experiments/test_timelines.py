"""Exposures over time, as sums to the end of each day."""

from datetime import date, timedelta

from hedgerow.experiments.results import MAX_DAYS, timelines

DAY = date(2026, 3, 1)


def test_days_without_exposures_are_there_too_and_sums_go_on() -> None:
    later = DAY + timedelta(days=2)
    one, two = timelines({"control": {DAY: 3}, "test": {later: 2}})
    assert one.days == two.days == ["2026-03-01", "2026-03-02", "2026-03-03"]
    assert (one.exposure_counts, two.exposure_counts) == ([3, 3, 3], [0, 0, 2])


def test_of_very_many_days_the_last_are_told_and_nobody_is_missing() -> None:
    (told,) = timelines({"control": {date(1970, 1, 1): 1, DAY: 2}})
    assert (len(told.days), told.days[-1]) == (MAX_DAYS, "2026-03-01")
    assert (told.exposure_counts[0], told.exposure_counts[-1]) == (1, 3)


def test_without_exposures_there_is_no_time() -> None:
    assert timelines({"control": {}, "test": {}}) == []
