"""The one event that is to blame is found, whatever stands beside it, and the others are done in
their order.
"""

from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.errors import Unavailable
from hedgerow.ingestion.care import Careful
from hedgerow.ingestion.model import Accepted
from hedgerow.projects.model import ProjectId
from tests.happenings import happening
from tests.unit.generated import bounded

USUAL = 16
BUCKET = 3


class Inbox:
    """Rows of a bucket, of which the events with these numbers cannot be worked on."""

    def __init__(self, sizes: Sequence[int], bad: frozenset[int], spoilt: frozenset[int]) -> None:
        numbers = iter(range(sum(sizes)))
        self.rows = []
        for id, size in enumerate(sizes):
            events = [happening("seen", "ann", {}, uuid=str(next(numbers))) for _ in range(size)]
            row = Accepted(id=id, project_id=ProjectId(1), events=events, number=size)
            if id in spoilt:
                row = msgspec.structs.replace(row, events=(), problem="spoilt")
            self.rows.append(row)
        self.bad = {str(number) for number in bad}
        self.done: list[str] = []
        self.aside: list[str] = []
        self.told: list[str] = []
        self.counted = self.attempts = 0
        self.careful = Careful[Accepted](
            "settle",
            USUAL,
            lambda error: isinstance(error, KeyError),
            lambda _stage, uuid, *_: self.told.append(uuid),
            self.set_aside,
        )

    async def work(self, rows: Sequence[Accepted]) -> bool:
        self.attempts += 1
        uuids = [event.uuid for row in rows for event in row.events]
        if self.bad & set(uuids):
            raise KeyError
        self.done += uuids
        self.end(rows)
        return True

    async def set_aside(self, bucket: int, row: Accepted, reason: str) -> bool:
        assert (bucket, bool(reason)) == (BUCKET, True)
        self.aside += [event.uuid for event in row.events] or [f"row {row.id}"]
        self.end([row])
        return True

    def end(self, rows: Sequence[Accepted]) -> None:
        for row in rows:
            first = self.rows.pop(0)
            assert first.id == row.id
            if row.rest:
                left = first.number - row.number
                rest = msgspec.structs.replace(first, events=row.rest, number=left)
                self.rows.insert(0, rest)

    async def work_all(self) -> None:
        while self.rows:
            some = self.careful.some_of(BUCKET, tuple(self.rows))
            if await self.careful.attempt(BUCKET, some, self.work):
                self.counted += sum(row.number for row in some)


@bounded
@given(
    sizes=st.lists(st.integers(0, 20), max_size=12),
    bad=st.frozensets(st.integers(0, 100), max_size=6),
    spoilt=st.frozensets(st.integers(0, 11), max_size=3),
)
async def test_the_others_are_done_in_their_order(
    sizes: list[int], bad: frozenset[int], spoilt: frozenset[int]
) -> None:
    inbox = Inbox(sizes, bad, spoilt)
    readable = [int(event.uuid) for row in inbox.rows for event in row.events]
    await inbox.work_all()
    assert [int(uuid) for uuid in inbox.done] == [each for each in readable if each not in bad]
    blamed = [str(each) for each in readable if each in bad]
    rows = [f"row {id}" for id in sorted(spoilt) if id < len(sizes)]
    assert sorted(inbox.aside) == sorted(blamed + rows)
    assert inbox.counted == sum(sizes)


async def test_one_among_many_is_found_by_halves_and_then_all_is_as_before() -> None:
    inbox = Inbox([64], frozenset({40}), frozenset())
    await inbox.work_all()
    assert inbox.aside == ["40"]
    assert inbox.attempts < 20
    assert inbox.told == ["40"]
    assert inbox.careful.number == 1
    assert not inbox.careful.is_searching


@pytest.mark.parametrize("last", [True, False])
async def test_nobody_searches_where_nothing_is_left(last: bool) -> None:
    inbox = Inbox([2], frozenset({1}), frozenset())
    await inbox.work_all()
    assert inbox.careful.is_searching
    if last:
        inbox.careful.look_at([BUCKET + 1])
    else:
        inbox.careful.some_of(BUCKET, [])
    assert not inbox.careful.is_searching


async def test_nothing_is_set_aside_for_a_store_that_is_away() -> None:
    inbox = Inbox([1], frozenset(), frozenset())

    async def away(_: Sequence[Accepted]) -> bool:
        raise Unavailable

    with pytest.raises(Unavailable):
        await inbox.careful.attempt(BUCKET, inbox.rows, away)
    assert not inbox.careful.is_searching
    assert inbox.aside == []


async def test_what_another_process_took_is_not_counted() -> None:
    inbox = Inbox([1], frozenset({0}), frozenset())

    async def taken(_bucket: int, _row: Accepted, _reason: str) -> bool:
        return False

    careful = Careful[Accepted]("settle", USUAL, lambda _: True, print, taken)
    for _ in range(2):
        assert not await careful.attempt(BUCKET, inbox.rows, inbox.work)
    assert careful.number == 0


async def test_one_that_fails_once_is_tried_again() -> None:
    inbox = Inbox([1, 1], frozenset({0}), frozenset())
    await inbox.careful.attempt(BUCKET, inbox.careful.some_of(BUCKET, inbox.rows[:1]), inbox.work)
    inbox.bad.clear()
    await inbox.work_all()
    assert (inbox.done, inbox.aside) == (["0", "1"], [])


async def test_fewer_are_taken_where_memory_is_short_but_none_is_set_aside_for_it() -> None:
    inbox = Inbox([2], frozenset(), frozenset())

    async def short(_: Sequence[Accepted]) -> bool:
        raise MemoryError

    assert not await inbox.careful.attempt(BUCKET, inbox.rows, short)
    one = inbox.careful.some_of(BUCKET, inbox.rows)
    assert len(one[0].events) == 1
    for _ in range(3):
        with pytest.raises(MemoryError):
            await inbox.careful.attempt(BUCKET, one, short)
    assert inbox.aside == []
