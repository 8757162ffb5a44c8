"""Occurrences have a bounded size, and can be added in any order and several times."""

import random
from datetime import UTC, datetime, timedelta
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from hedgerow.persons.behaviors.times import (
    MAX_FUTURE,
    NEVER,
    SIZE,
    add_occurrences,
    decode_behaviors,
    encode_behaviors,
    join_behaviors,
    pack_end,
    pack_occurrence,
    to_microseconds,
    unpack_occurrences,
)
from tests.unit.generated import bounded

NOW = datetime(2026, 3, 1, tzinfo=UTC)
END = pack_end(NOW)
HOURS = st.integers(-40 * 24 * 365, 20)
EVENTS = st.lists(st.tuples(HOURS, st.integers(0, 2**128 - 1)), min_size=1, max_size=30)


def pack(hours: int, number: int) -> bytes:
    return pack_occurrence(NOW + timedelta(hours=hours), str(UUID(int=number)))


@bounded
@given(EVENTS, st.integers(1, 12), st.randoms(use_true_random=False))
def test_order_and_repetition_make_no_difference(
    events: list[tuple[int, int]], depth: int, source: random.Random
) -> None:
    packed = [pack(*each) for each in events]
    at_once = add_occurrences(b"", packed, depth, END)
    shuffled = packed * 2
    source.shuffle(shuffled)
    one_by_one = b""
    for each in shuffled:
        one_by_one = add_occurrences(one_by_one, [each], depth, END)
    assert one_by_one == at_once
    hours = sorted({(hour, number % 2**64): hour for hour, number in events}.values())
    past = [hour for hour in hours if hour <= 0]
    expected = [*past[-depth:], *(hour for hour in hours if hour > 0)]
    found = unpack_occurrences([at_once])
    assert found.first == to_microseconds(NOW + timedelta(hours=hours[0]))
    assert found.latest == [to_microseconds(NOW + timedelta(hours=hour)) for hour in expected]


@bounded
@given(EVENTS, EVENTS)
def test_distinct_ids_of_a_person_are_joined(
    one: list[tuple[int, int]], other: list[tuple[int, int]]
) -> None:
    parts = [add_occurrences(b"", [pack(*each) for each in part], 50, END) for part in (one, other)]
    together = add_occurrences(b"", [pack(*each) for each in one + other], 100, END)
    assert unpack_occurrences(parts) == unpack_occurrences([together])


def test_size_is_bounded() -> None:
    past = [pack(-number, number) for number in range(1000)]
    future = [pack(1, number) for number in range(1000)]
    packed = add_occurrences(add_occurrences(b"", past, 10, END), future, 10, END)
    assert len(packed) == SIZE * (1 + 10 + MAX_FUTURE)


def test_encoding() -> None:
    rows = [encode_behaviors({1: b"a" * 32, 2: b"b" * 32}), encode_behaviors({2: b"c" * 32})]
    assert decode_behaviors(rows[0]) == {1: b"a" * 32, 2: b"b" * 32}
    assert join_behaviors(rows) == {1: [b"a" * 32], 2: [b"b" * 32, b"c" * 32]}
    assert unpack_occurrences([]) == NEVER
