"""Sets of numbers as ranges, compared with sets."""

import random
from itertools import pairwise

from hedgerow.edge.inbox.position import NumberRanges


def expand(ranges: NumberRanges) -> set[int]:
    return {number for start, end in ranges for number in range(start, end)}


def test_ranges_are_a_set() -> None:
    random_numbers = random.Random(7)
    for _ in range(300):
        ranges, expected = NumberRanges(), set[int]()
        for _ in range(12):
            start = random_numbers.randrange(40)
            end = start + random_numbers.randrange(6)
            ranges.add(start, end)
            expected |= set(range(start, end))
        found = list(ranges)
        assert expand(ranges) == expected
        assert all(before[1] < after[0] for before, after in pairwise(found))
        assert ranges.count() == len(expected)
        assert {number for number in range(50) if number in ranges} == expected
        missing = NumberRanges(ranges.find_missing(5, 30))
        assert expand(missing) == set(range(5, 30)) - expected


def test_finished_ranges_move_the_start() -> None:
    ranges = NumberRanges([(3, 5), (8, 9)])
    assert ranges.take_from(2) == 2
    assert ranges.take_from(3) == 5
    assert list(ranges) == [(8, 9)]
    assert ranges.take_from(10) == 10
    assert not list(ranges)


def test_text_is_short() -> None:
    assert str(NumberRanges([(1, 2), (4, 9)])) == "1, 4-8"
