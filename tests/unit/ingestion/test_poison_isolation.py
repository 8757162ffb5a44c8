"""A bad event is isolated among any others, which are processed in their order."""

from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.errors import Unavailable
from hedgerow.ingestion.model import InboxRow
from hedgerow.ingestion.poison_isolation import BatchBisector
from hedgerow.projects.model import ProjectId
from tests.support.factories import captured_event
from tests.unit.generated import bounded

BATCH_SIZE = 16
BUCKET = 3


class Inbox:
    """Rows of one bucket. Processing fails for the events with the numbers in `bad`."""

    def __init__(
        self, sizes: Sequence[int], bad: frozenset[int], unreadable: frozenset[int]
    ) -> None:
        numbers = iter(range(sum(sizes)))
        self.rows = []
        for id, size in enumerate(sizes):
            events = [
                captured_event("seen", "ann", {}, uuid=str(next(numbers))) for _ in range(size)
            ]
            row = InboxRow(id=id, project_id=ProjectId(1), events=events, number=size)
            if id in unreadable:
                row = msgspec.structs.replace(row, events=(), problem="unreadable")
            self.rows.append(row)
        self.bad = {str(number) for number in bad}
        self.done: list[str] = []
        self.dead_letters: list[str] = []
        self.logged: list[str] = []
        self.counted = self.attempts = 0
        self.bisector = BatchBisector[InboxRow](
            "process",
            BATCH_SIZE,
            lambda error: isinstance(error, KeyError),
            lambda _stage, uuid, *_: self.logged.append(uuid),
            self.add_dead_letter,
        )

    async def process(self, rows: Sequence[InboxRow]) -> bool:
        self.attempts += 1
        uuids = [event.uuid for row in rows for event in row.events]
        if self.bad & set(uuids):
            raise KeyError
        self.done += uuids
        self.remove(rows)
        return True

    async def add_dead_letter(self, bucket: int, row: InboxRow, reason: str) -> bool:
        assert (bucket, bool(reason)) == (BUCKET, True)
        self.dead_letters += [event.uuid for event in row.events] or [f"row {row.id}"]
        self.remove([row])
        return True

    def remove(self, rows: Sequence[InboxRow]) -> None:
        for row in rows:
            first = self.rows.pop(0)
            assert first.id == row.id
            if row.rest:
                left = first.number - row.number
                rest = msgspec.structs.replace(first, events=row.rest, number=left)
                self.rows.insert(0, rest)

    async def process_all(self) -> None:
        while self.rows:
            some = self.bisector.select_rows(BUCKET, tuple(self.rows))
            if await self.bisector.run(BUCKET, some, self.process):
                self.counted += sum(row.number for row in some)


@bounded
@given(
    sizes=st.lists(st.integers(0, 20), max_size=12),
    bad=st.frozensets(st.integers(0, 100), max_size=6),
    unreadable=st.frozensets(st.integers(0, 11), max_size=3),
)
async def test_other_events_are_processed_in_order(
    sizes: list[int], bad: frozenset[int], unreadable: frozenset[int]
) -> None:
    inbox = Inbox(sizes, bad, unreadable)
    readable = [int(event.uuid) for row in inbox.rows for event in row.events]
    await inbox.process_all()
    assert [int(uuid) for uuid in inbox.done] == [each for each in readable if each not in bad]
    bad_uuids = [str(each) for each in readable if each in bad]
    rows = [f"row {id}" for id in sorted(unreadable) if id < len(sizes)]
    assert sorted(inbox.dead_letters) == sorted(bad_uuids + rows)
    assert inbox.counted == sum(sizes)


async def test_bad_event_is_found_by_bisection_and_isolation_ends() -> None:
    inbox = Inbox([64], frozenset({40}), frozenset())
    await inbox.process_all()
    assert inbox.dead_letters == ["40"]
    assert inbox.attempts < 20
    assert inbox.logged == ["40"]
    assert inbox.bisector.dead_letter_count == 1
    assert not inbox.bisector.is_isolating


@pytest.mark.parametrize("last", [True, False])
async def test_isolation_ends_in_an_empty_bucket(last: bool) -> None:
    inbox = Inbox([2], frozenset({1}), frozenset())
    await inbox.process_all()
    assert inbox.bisector.is_isolating
    if last:
        inbox.bisector.forget_other_buckets([BUCKET + 1])
    else:
        inbox.bisector.select_rows(BUCKET, [])
    assert not inbox.bisector.is_isolating


async def test_unavailable_store_causes_no_dead_letters() -> None:
    inbox = Inbox([1], frozenset(), frozenset())

    async def fail(_: Sequence[InboxRow]) -> bool:
        raise Unavailable

    with pytest.raises(Unavailable):
        await inbox.bisector.run(BUCKET, inbox.rows, fail)
    assert not inbox.bisector.is_isolating
    assert inbox.dead_letters == []


async def test_row_of_another_process_is_not_counted() -> None:
    inbox = Inbox([1], frozenset({0}), frozenset())

    async def lose_lease(_bucket: int, _row: InboxRow, _reason: str) -> bool:
        return False

    bisector = BatchBisector[InboxRow]("process", BATCH_SIZE, lambda _: True, print, lose_lease)
    for _ in range(2):
        assert not await bisector.run(BUCKET, inbox.rows, inbox.process)
    assert bisector.dead_letter_count == 0


async def test_event_that_fails_once_is_retried() -> None:
    inbox = Inbox([1, 1], frozenset({0}), frozenset())
    await inbox.bisector.run(
        BUCKET, inbox.bisector.select_rows(BUCKET, inbox.rows[:1]), inbox.process
    )
    inbox.bad.clear()
    await inbox.process_all()
    assert (inbox.done, inbox.dead_letters) == (["0", "1"], [])


async def test_lack_of_memory_shrinks_the_batch_without_dead_letters() -> None:
    inbox = Inbox([2], frozenset(), frozenset())

    async def run_out_of_memory(_: Sequence[InboxRow]) -> bool:
        raise MemoryError

    assert not await inbox.bisector.run(BUCKET, inbox.rows, run_out_of_memory)
    one = inbox.bisector.select_rows(BUCKET, inbox.rows)
    assert len(one[0].events) == 1
    for _ in range(3):
        with pytest.raises(MemoryError):
            await inbox.bisector.run(BUCKET, one, run_out_of_memory)
    assert inbox.dead_letters == []
