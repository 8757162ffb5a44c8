"""Events that cannot be settled or stored: kept aside with their reason, nobody else's beside them,
and sent on their way again when somebody says so.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from sqlalchemy import Connection, LargeBinary, bindparam, func, insert, select, text

from hedgerow.errors import Unavailable
from hedgerow.ingestion.care import Careful
from hedgerow.ingestion.model import Accepted, Arrived
from hedgerow.ingestion.store import SETTLED_AT_ONCE, Settled, Waiting, WarningQuery
from hedgerow.persons.known import Known
from hedgerow.projects.model import ProjectId
from hedgerow.storage.blame import is_about_values
from hedgerow.storage.inbox import InboxRecords
from hedgerow.storage.ingestion_warnings import WarningRecords
from hedgerow.storage.person_changes import PersonsMoved
from hedgerow.storage.set_aside import SetAsideRecords
from hedgerow.storage.tables import inbox as inbox_table
from hedgerow.storage.tables import set_aside_events
from tests.contract.stores.conftest import DEFAULT_PROJECT, NOW, Stores
from tests.contract.stores.test_inbox import arrived, decide, uuids

BUCKETS = 16


@pytest.fixture
def inbox(stores: Stores) -> InboxRecords:
    return InboxRecords(stores.database, 1 if stores.database.engine_name == "sqlite" else BUCKETS)


@pytest.fixture
def aside(stores: Stores) -> SetAsideRecords:
    return SetAsideRecords(stores.database)


def refusing(*numbers: int) -> Any:
    """Decides as capture does, but raises over some events."""
    bad = {arrived(number).uuid for number in numbers}

    def run(project_id: ProjectId, events: Sequence[Arrived], known: Known) -> Settled:
        if any(event.uuid in bad for event in events):
            raise KeyError("nobody foresaw this")
        return decide(project_id, events, known)

    return run


class Settler:
    """One worker of one bucket."""

    def __init__(self, inbox: InboxRecords, bucket: int, how: Any = decide) -> None:
        self._inbox = inbox
        self._bucket = bucket
        self._how = how
        self.careful = Careful("settle", SETTLED_AT_ONCE, is_about_values, print, self._set_aside)
        self.done = 0

    async def turn(self) -> bool:
        """Whether there was something to do."""
        rows = self.careful.some_of(self._bucket, await self._inbox.oldest(self._bucket))
        if rows and await self.careful.attempt(self._bucket, rows, self._settle):
            self.done += sum(row.number for row in rows)
        return bool(rows)

    async def _settle(self, rows: Sequence[Accepted]) -> bool:
        return await self._inbox.settle(self._bucket, rows, self._how, NOW)

    async def _set_aside(self, bucket: int, row: Accepted, reason: str) -> bool:
        return await self._inbox.set_aside_accepted(bucket, row, reason, NOW)


async def bucket_of(inbox: InboxRecords) -> int:
    (bucket,) = await inbox.unsettled_buckets()
    return bucket


async def spoil(stores: Stores, packed: bytes, row: int, table: str = "inbox") -> None:
    statement = text(f"UPDATE {table} SET events = :events WHERE id = :id").bindparams(
        bindparam("events", type_=LargeBinary), id=row
    )

    def change(connection: Connection) -> None:
        connection.execute(statement, {"events": packed})

    await stores.database.write(change)


async def all_ready(inbox: InboxRecords, bucket: int) -> list[str]:
    found = []
    while rows := await inbox.ready(bucket):
        found += uuids(rows)
        await inbox.stored(rows, {}, NOW)
    return found


async def test_the_events_to_blame_are_set_aside_and_the_others_settle_in_their_order(
    inbox: InboxRecords, aside: SetAsideRecords, stores: Stores
) -> None:
    for first in range(0, 60, 20):
        batch = [arrived(number, "ann", last=number) for number in range(first, first + 20)]
        await inbox.add(DEFAULT_PROJECT, batch, [], NOW)
    bucket = await bucket_of(inbox)
    settler = Settler(inbox, bucket, refusing(7, 33))
    while await settler.turn():
        pass
    assert settler.done == 60
    assert settler.careful.number == 2
    # Readers wait for as many as were accepted: also for those that never come.
    assert await inbox.waiting() == Waiting(unsettled=0, unstored=60)
    good = [arrived(number).uuid for number in range(60) if number not in (7, 33)]
    assert await all_ready(inbox, bucket) == good
    found, number = await aside.listed(10)
    assert number == await inbox.number_set_aside() == 2
    assert [(each.uuid, each.stage, each.reason) for each in found] == [
        (arrived(bad).uuid, "settle", "KeyError: 'nobody foresaw this'") for bad in (7, 33)
    ]
    query = WarningQuery(project_id=DEFAULT_PROJECT, type="event_set_aside", limit=9, offset=0)
    warnings, _ = await WarningRecords(stores.database).warnings(query)
    assert {each.uuid for each in warnings} == {each.uuid for each in found}


async def test_what_is_sent_on_its_way_again_settles_and_counts_for_nobody(
    inbox: InboxRecords, aside: SetAsideRecords
) -> None:
    await inbox.add(DEFAULT_PROJECT, [arrived(number) for number in range(3)], [], NOW)
    bucket = await bucket_of(inbox)
    settler = Settler(inbox, bucket, refusing(0, 1))
    while await settler.turn():
        pass
    (first, _), _ = await aside.listed(10)
    assert await aside.discard([first.id]) == 1
    assert await aside.content(first.id) is None
    assert await aside.retry(None, NOW) == 1
    assert await aside.listed(10) == ([], 0)
    await all_ready(inbox, bucket)
    assert await inbox.waiting() == Waiting(unsettled=0, unstored=0)
    mended = Settler(inbox, bucket)
    assert await mended.turn()
    assert mended.done == 0
    assert await all_ready(inbox, bucket) == [arrived(1).uuid]


@pytest.mark.parametrize(
    "spoilt",
    [
        b"",
        b"\xff\x00\xfe",
        msgspec.msgpack.encode([arrived(1)])[:-5],
        msgspec.msgpack.encode([["\x00uuid", 1, 2]]),
        b'[["uuid", "\xff\xfe"]]',
        b"[" * 100_000,
        b'{"an": "object"}',
    ],
    ids=["nothing", "noise", "truncated", "shape", "text", "deep", "object"],
)
async def test_a_row_that_cannot_be_read_is_set_aside_as_it_is(
    inbox: InboxRecords, aside: SetAsideRecords, stores: Stores, spoilt: bytes
) -> None:
    for number in range(3):
        await inbox.add(DEFAULT_PROJECT, [arrived(number)], [], NOW)
    bucket = await bucket_of(inbox)
    _, middle, _ = await inbox.oldest(bucket)
    await spoil(stores, spoilt, middle.id)
    settler = Settler(inbox, bucket)
    while await settler.turn():
        pass
    assert settler.done == 3
    assert await all_ready(inbox, bucket) == [arrived(0).uuid, arrived(2).uuid]
    ((found,), number) = await aside.listed(10)
    assert (number, found.project_id, found.uuid) == (1, DEFAULT_PROJECT, "")
    assert await aside.content(found.id) == spoilt


async def test_what_waits_for_the_event_store_may_be_spoilt_too(
    inbox: InboxRecords, aside: SetAsideRecords, stores: Stores
) -> None:
    await inbox.add(DEFAULT_PROJECT, [arrived(number) for number in range(4)], [], NOW)
    bucket = await bucket_of(inbox)
    await Settler(inbox, bucket).turn()
    (row,) = await inbox.ready(bucket)
    one = msgspec.structs.replace(row, events=row.events[:1], rest=row.events[1:], number=1)
    await inbox.set_aside_ready(bucket, one, "why", NOW)
    await inbox.set_aside_ready(bucket, one, "again, by another process", NOW)
    (row,) = await inbox.ready(bucket)
    assert uuids([row]) == [arrived(number).uuid for number in (1, 2, 3)]
    two = msgspec.structs.replace(row, events=row.events[:2], rest=row.events[2:], number=2)
    await inbox.stored([two], {}, NOW)
    await inbox.stored([two], {}, NOW)
    (row,) = await inbox.ready(bucket)
    assert (uuids([row]), row.number) == ([arrived(3).uuid], 1)
    await spoil(stores, b"\xc1", row.id, "ready_events")
    assert await inbox.on_the_way() == []
    (row,) = await inbox.ready(bucket)
    assert row.problem
    await inbox.set_aside_ready(bucket, row, row.problem, NOW)
    assert await inbox.ready(bucket) == ()
    assert [each.stage for each in (await aside.listed(9))[0]] == ["store"] * 2
    assert await aside.retry(None, NOW) == 2
    rows = await inbox.ready(bucket)
    assert [(uuids([row]), row.number) for row in rows] == [([arrived(0).uuid], 0), ([], 0)]


async def test_a_person_who_is_forgotten_is_forgotten_here_too(
    inbox: InboxRecords, aside: SetAsideRecords
) -> None:
    await inbox.add(DEFAULT_PROJECT, [arrived(1, "ann"), arrived(2, "ann")], [], NOW)
    settler = Settler(inbox, await bucket_of(inbox), refusing(1, 2))
    while await settler.turn():
        pass
    await aside.forget(ProjectId(999), [], ["ann"])
    await aside.forget(DEFAULT_PROJECT, [arrived(2).uuid], ["bob"])
    assert (await aside.listed(9))[1] == 2
    await aside.forget(DEFAULT_PROJECT, [arrived(2).uuid], [])
    assert [each.uuid for each in (await aside.listed(9))[0]] == [arrived(1).uuid]
    await aside.forget(DEFAULT_PROJECT, [], ["ann"])
    assert await aside.listed(9) == ([], 0)


async def test_a_row_that_another_process_has_begun_is_left_to_it(
    inbox: InboxRecords, stores: Stores
) -> None:
    if stores.database.engine_name == "sqlite":
        pytest.skip("one process only")
    await inbox.add(DEFAULT_PROJECT, [arrived(each) for each in range(4)], [], NOW)
    bucket = await bucket_of(inbox)
    (stale,) = await inbox.oldest(bucket)
    other = InboxRecords(stores.database, BUCKETS)
    begun = msgspec.structs.replace(stale, events=stale.events[:1], rest=stale.events[1:], number=1)
    assert await other.settle(bucket, [begun], decide, NOW)
    assert not await inbox.settle(bucket, [stale], decide, NOW)
    assert not await inbox.set_aside_accepted(bucket, stale, "why", NOW)
    left = select(func.sum(inbox_table.c.number))
    assert await stores.scalar(left) == 3


async def test_many_that_are_sent_on_their_way_again_are_taken_some_at_a_time(
    inbox: InboxRecords, stores: Stores
) -> None:
    packed = msgspec.msgpack.encode([arrived(1)])
    again = {"bucket": 0, "project_id": DEFAULT_PROJECT, "number": 0, "accepted_ms": 0}
    rows = [again | {"events": packed}] * (SETTLED_AT_ONCE + 1)
    await stores.database.write(
        lambda connection: connection.execute(insert(inbox_table), rows).close()
    )
    assert len(await inbox.oldest(0)) == SETTLED_AT_ONCE


@pytest.mark.parametrize(("buckets", "is_their_fault"), [(1, True), (BUCKETS, False)])
async def test_events_at_odds_with_persons_that_nobody_else_moves_are_to_blame(
    inbox: InboxRecords, stores: Stores, buckets: int, is_their_fault: bool
) -> None:
    await inbox.add(DEFAULT_PROJECT, [arrived(1)], [], NOW)
    bucket = await bucket_of(inbox)
    if stores.database.engine_name == "sqlite" and buckets > 1:
        pytest.skip("one process only")

    def moved(*_: Any) -> Settled:
        raise PersonsMoved

    worker = InboxRecords(stores.database, buckets)
    rows = await worker.oldest(bucket)
    with pytest.raises((RuntimeError, Unavailable)) as raised:
        await worker.settle(bucket, rows, moved, NOW)
    assert is_about_values(raised.value) is is_their_fault


async def test_they_are_counted_without_their_bytes(stores: Stores) -> None:
    if stores.database.engine_name != "sqlite":
        pytest.skip("others keep what is large elsewhere")

    def plan(connection: Connection) -> str:
        query = select(func.sum(set_aside_events.c.number))
        return str(connection.execute(text(f"EXPLAIN QUERY PLAN {query}")).all())

    assert "USING COVERING INDEX" in await stores.database.read(plan)


async def test_two_who_set_the_same_aside_do_it_once(
    inbox: InboxRecords, aside: SetAsideRecords
) -> None:
    await inbox.add(DEFAULT_PROJECT, [arrived(1)], [], NOW)
    bucket = await bucket_of(inbox)
    await Settler(inbox, bucket).turn()
    (row,) = await inbox.ready(bucket)
    await asyncio.gather(*(inbox.set_aside_ready(bucket, row, "why", NOW) for _ in range(8)))
    assert (await aside.listed(9))[1] == 1


async def test_what_came_after_a_decision_is_not_discarded_by_it(
    inbox: InboxRecords, aside: SetAsideRecords
) -> None:
    assert await aside.newest() == 0
    await inbox.add(DEFAULT_PROJECT, [arrived(1), arrived(2)], [], NOW)
    bucket = await bucket_of(inbox)
    settler = Settler(inbox, bucket, refusing(1, 2))
    while not await aside.newest():
        await settler.turn()
    decided = await aside.newest()
    while await settler.turn():
        pass
    assert await aside.discard_until(decided) == 1
    assert [each.uuid for each in (await aside.listed(9))[0]] == [arrived(2).uuid]
