"""Dead letters: only the failing events, with their reason, until an operator retries or discards
them.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from sqlalchemy import Connection, LargeBinary, bindparam, func, insert, select, text

from hedgerow.errors import Unavailable
from hedgerow.events.deletion import AcceptedEvents, EventDeletion, EventSelection
from hedgerow.ingestion.model import CapturedEvent, InboxRow
from hedgerow.ingestion.persons.loaded_state import LoadedState
from hedgerow.ingestion.poison_isolation import BatchBisector
from hedgerow.ingestion.store import (
    PROCESS_BATCH_EVENTS,
    DeadLetterChoice,
    DeadLetterQuery,
    InboxBacklog,
    ProcessingResult,
    WarningQuery,
)
from hedgerow.projects.activity import ActivityEntry
from hedgerow.projects.model import ProjectId
from hedgerow.storage.engine.errors import is_data_error
from hedgerow.storage.ingestion.dead_letters import SqlDeadLetterStore
from hedgerow.storage.ingestion.inbox import SqlInboxStore
from hedgerow.storage.ingestion.ingestion_warnings import SqlWarningStore
from hedgerow.storage.persons.changes import ConcurrentPersonChangeError
from hedgerow.storage.tables.ingestion import inbox as inbox_table
from hedgerow.storage.tables.ingestion import set_aside_events
from tests.contract.storage.conftest import ACTOR, DEFAULT_PROJECT, NOW, Stores, run_sql
from tests.contract.storage.ingestion.conftest import OpenInbox
from tests.contract.storage.ingestion.test_inbox import build_captured_event, decide, get_uuids

BUCKETS = 16
RETRIED = ActivityEntry(
    scope="DeadLetter",
    item_id="",
    item_name="",
    activity="retried",
    actor=ACTOR,
    project_id=DEFAULT_PROJECT,
)


@pytest.fixture
def inbox(stores: Stores) -> SqlInboxStore:
    return SqlInboxStore(stores.database, 1 if stores.database.engine_name == "sqlite" else BUCKETS)


@pytest.fixture
def any_inbox(stores: Stores, open_any_inbox: OpenInbox) -> SqlInboxStore:
    return open_any_inbox(stores, 1 if stores.database.engine_name == "sqlite" else BUCKETS)


@pytest.fixture
def letters(stores: Stores) -> SqlDeadLetterStore:
    return SqlDeadLetterStore(stores.database)


def decide_except(*numbers: int) -> Any:
    """Build a decision that raises for some events."""
    bad = {build_captured_event(number).uuid for number in numbers}

    def run(
        project_id: ProjectId, events: Sequence[CapturedEvent], known: LoadedState
    ) -> ProcessingResult:
        if any(event.uuid in bad for event in events):
            raise KeyError("unexpected")
        return decide(project_id, events, known)

    return run


class BucketWorker:
    """The worker of one bucket."""

    def __init__(self, inbox: SqlInboxStore, bucket: int, how: Any = decide) -> None:
        self._inbox = inbox
        self._bucket = bucket
        self._how = how
        self.careful = BatchBisector(
            "process", PROCESS_BATCH_EVENTS, is_data_error, print, self._dead_letter
        )
        self.done = 0

    async def turn(self) -> bool:
        """Process one batch. Return whether there was one."""
        rows = self.careful.select_rows(
            self._bucket, await self._inbox.fetch_unprocessed(self._bucket)
        )
        if rows and await self.careful.run(self._bucket, rows, self._process):
            self.done += sum(row.number for row in rows)
        return bool(rows)

    async def _process(self, rows: Sequence[InboxRow]) -> bool:
        return await self._inbox.process(self._bucket, rows, self._how, NOW)

    async def _dead_letter(self, bucket: int, row: InboxRow, reason: str) -> bool:
        return await self._inbox.dead_letter_unprocessed(bucket, row, reason, NOW)


async def find_bucket(inbox: SqlInboxStore) -> int:
    if inbox.bucket_count == 1:
        return 0
    (bucket,) = (await inbox.find_work()).unprocessed
    return bucket


async def damage_row(stores: Stores, packed: bytes, row: int, table: str = "inbox") -> None:
    statement = text(f"UPDATE {table} SET events = :events WHERE id = :id").bindparams(
        bindparam("events", type_=LargeBinary), id=row
    )

    def change(connection: Connection) -> None:
        connection.execute(statement, {"events": packed})

    await stores.database.write(change)


async def list_processed(inbox: SqlInboxStore, bucket: int) -> list[str]:
    found = []
    while rows := await inbox.fetch_processed(bucket):
        found += get_uuids(rows)
        await inbox.mark_stored(rows, {}, NOW)
    return found


async def test_poison_events_become_dead_letters_and_others_are_processed_in_order(
    any_inbox: SqlInboxStore, letters: SqlDeadLetterStore, stores: Stores
) -> None:
    inbox = any_inbox
    for first in range(0, 60, 20):
        batch = [
            build_captured_event(number, "ann", last=number) for number in range(first, first + 20)
        ]
        await inbox.add(DEFAULT_PROJECT, batch, [], NOW)
    bucket = await find_bucket(inbox)
    settler = BucketWorker(inbox, bucket, decide_except(7, 33))
    while await settler.turn():
        pass
    assert settler.done == 60
    assert settler.careful.dead_letter_count == 2
    # The read barrier counts all accepted events, including dead letters.
    assert await inbox.count_backlog() == InboxBacklog(unstored={DEFAULT_PROJECT: 60})
    good = [build_captured_event(number).uuid for number in range(60) if number not in (7, 33)]
    assert await list_processed(inbox, bucket) == good
    found, number = await letters.list_oldest(10)
    assert number == await inbox.count_dead_letters() == 2
    assert [(each.uuid, each.stage, each.reason) for each in found] == [
        (build_captured_event(bad).uuid, "process", "KeyError: 'unexpected'") for bad in (7, 33)
    ]
    query = WarningQuery(project_id=DEFAULT_PROJECT, type="event_set_aside", limit=9, offset=0)
    warnings, _ = await SqlWarningStore(stores.database).list_warnings(query)
    assert {each.uuid for each in warnings} == {each.uuid for each in found}


async def test_retried_dead_letter_is_processed_without_affecting_the_read_barrier(
    inbox: SqlInboxStore, letters: SqlDeadLetterStore
) -> None:
    await inbox.add(DEFAULT_PROJECT, [build_captured_event(number) for number in range(3)], [], NOW)
    bucket = await find_bucket(inbox)
    settler = BucketWorker(inbox, bucket, decide_except(0, 1))
    while await settler.turn():
        pass
    (first, _), _ = await letters.list_oldest(10)
    assert await letters.discard([first.id]) == 1
    assert await letters.get_content(first.id) is None
    assert await letters.retry(None, NOW) == 1
    assert await letters.list_oldest(10) == ([], 0)
    await list_processed(inbox, bucket)
    assert await inbox.count_backlog() == InboxBacklog()
    fixed = BucketWorker(inbox, bucket)
    assert await fixed.turn()
    assert fixed.done == 0
    assert await list_processed(inbox, bucket) == [build_captured_event(1).uuid]


@pytest.mark.parametrize(
    "damaged",
    [
        b"",
        b"\xff\x00\xfe",
        msgspec.msgpack.encode([build_captured_event(1)])[:-5],
        msgspec.msgpack.encode([["\x00uuid", 1, 2]]),
        b'[["uuid", "\xff\xfe"]]',
        b"[" * 100_000,
        b'{"an": "object"}',
    ],
    ids=["nothing", "noise", "truncated", "shape", "text", "deep", "object"],
)
async def test_undecodable_row_becomes_a_dead_letter_unchanged(
    inbox: SqlInboxStore, letters: SqlDeadLetterStore, stores: Stores, damaged: bytes
) -> None:
    for number in range(3):
        await inbox.add(DEFAULT_PROJECT, [build_captured_event(number)], [], NOW)
    bucket = await find_bucket(inbox)
    _, middle, _ = await inbox.fetch_unprocessed(bucket)
    await damage_row(stores, damaged, middle.id)
    settler = BucketWorker(inbox, bucket)
    while await settler.turn():
        pass
    assert settler.done == 3
    assert await list_processed(inbox, bucket) == [
        build_captured_event(0).uuid,
        build_captured_event(2).uuid,
    ]
    ((found,), number) = await letters.list_oldest(10)
    assert (number, found.project_id, found.uuid) == (1, DEFAULT_PROJECT, "")
    assert await letters.get_content(found.id) == damaged


async def test_undecodable_processed_row_becomes_a_dead_letter(
    inbox: SqlInboxStore, letters: SqlDeadLetterStore, stores: Stores
) -> None:
    await inbox.add(DEFAULT_PROJECT, [build_captured_event(number) for number in range(4)], [], NOW)
    bucket = await find_bucket(inbox)
    await BucketWorker(inbox, bucket).turn()
    (row,) = await inbox.fetch_processed(bucket)
    one = msgspec.structs.replace(row, events=row.events[:1], rest=row.events[1:], number=1)
    await inbox.dead_letter_processed(bucket, one, "why", NOW)
    await inbox.dead_letter_processed(bucket, one, "again, by another process", NOW)
    (row,) = await inbox.fetch_processed(bucket)
    assert get_uuids([row]) == [build_captured_event(number).uuid for number in (1, 2, 3)]
    two = msgspec.structs.replace(row, events=row.events[:2], rest=row.events[2:], number=2)
    await inbox.mark_stored([two], {}, NOW)
    await inbox.mark_stored([two], {}, NOW)
    (row,) = await inbox.fetch_processed(bucket)
    assert (get_uuids([row]), row.number) == ([build_captured_event(3).uuid], 1)
    await damage_row(stores, b"\xc1", row.id, "ready_events")
    assert await inbox.list_pending_keys() == []
    (row,) = await inbox.fetch_processed(bucket)
    assert row.problem
    await inbox.dead_letter_processed(bucket, row, row.problem, NOW)
    assert await inbox.fetch_processed(bucket) == ()
    assert [each.stage for each in (await letters.list_oldest(9))[0]] == ["store"] * 2
    assert await letters.retry(None, NOW) == 2
    rows = await inbox.fetch_processed(bucket)
    assert [(get_uuids([row]), row.number) for row in rows] == [
        ([build_captured_event(0).uuid], 0),
        ([], 0),
    ]


async def test_deleted_person_has_no_dead_letters(
    inbox: SqlInboxStore, letters: SqlDeadLetterStore
) -> None:
    await inbox.add(
        DEFAULT_PROJECT, [build_captured_event(1, "ann"), build_captured_event(2, "ann")], [], NOW
    )
    settler = BucketWorker(inbox, await find_bucket(inbox), decide_except(1, 2))
    while await settler.turn():
        pass
    await letters.delete_copies(ProjectId(999), [], ["ann"])
    await letters.delete_copies(DEFAULT_PROJECT, [build_captured_event(2).uuid], ["bob"])
    assert (await letters.list_oldest(9))[1] == 2
    await letters.delete_copies(DEFAULT_PROJECT, [build_captured_event(2).uuid], [])
    assert [each.uuid for each in (await letters.list_oldest(9))[0]] == [
        build_captured_event(1).uuid
    ]
    await letters.delete_copies(DEFAULT_PROJECT, [], ["ann"])
    assert await letters.list_oldest(9) == ([], 0)


class NoEvents:
    """An event store without events, beside which nothing is counted."""

    async def delete(self, *_: object, **__: object) -> int:
        return 0

    async def begin_deletion(self, *_: object) -> None:
        pass


async def test_dead_letter_that_is_retried_during_a_deletion_does_not_come_back(
    inbox: SqlInboxStore, letters: SqlDeadLetterStore
) -> None:
    await inbox.add(DEFAULT_PROJECT, [build_captured_event(1, "ann")], [], NOW)
    settler = BucketWorker(inbox, await find_bucket(inbox), decide_except(1))
    while await settler.turn():
        pass
    requeued = []

    async def wait_and_retry(_: object) -> None:
        requeued.append(await letters.retry(None, NOW))

    async def do_nothing(_: object) -> None:
        pass

    none: Any = NoEvents()
    waits = AcceptedEvents(wait=do_nothing, wait_for_all=wait_and_retry)
    deletion = EventDeletion(none, [letters], none, none, waits, none)
    selection = EventSelection(distinct_ids=["ann"])
    deleted = await deletion.delete_without_audit(DEFAULT_PROJECT, selection)
    assert (deleted.copies, requeued) == (1, [0])
    assert await letters.list_oldest(9) == ([], 0)


@pytest.mark.parametrize("is_json", [False, True])
async def test_deleted_person_has_no_damaged_dead_letters(
    inbox: SqlInboxStore, letters: SqlDeadLetterStore, stores: Stores, *, is_json: bool
) -> None:
    """They may be in a row that cannot be decoded, of whose events nothing else is known."""
    encode = msgspec.json.encode if is_json else msgspec.msgpack.encode
    for number, name in enumerate(("ann", "anna")):
        await inbox.add(DEFAULT_PROJECT, [build_captured_event(number, name)], [], NOW)
        bucket = await find_bucket(inbox)
        (row,) = await inbox.fetch_unprocessed(bucket)
        await damage_row(stores, encode([name, number])[:-1], row.id)
        settler = BucketWorker(inbox, bucket)
        while await settler.turn():
            pass
    assert await letters.delete_copies(ProjectId(999), [], ["ann"]) == 0
    assert await letters.delete_copies(DEFAULT_PROJECT, [], ["nna"]) == 0
    # A row of processed events has no project: it may have the events of several.
    run_sql(stores.location, "UPDATE set_aside_events SET project_id = NULL")
    assert await letters.delete_copies(DEFAULT_PROJECT, [], ["ann"]) == 0
    run_sql(stores.location, "UPDATE set_aside_events SET project_id = :id", id=DEFAULT_PROJECT)
    assert await letters.delete_copies(DEFAULT_PROJECT, [], ["ann"]) == 1
    ((left,), _) = await letters.list_oldest(9)
    assert b"anna" in (await letters.get_content(left.id) or b"")


async def test_deleted_person_has_no_warnings(inbox: SqlInboxStore, stores: Stores) -> None:
    captured = [build_captured_event(1, "ann"), build_captured_event(2, "bob")]
    await inbox.add(DEFAULT_PROJECT, captured, [], NOW)
    for bucket in range(1 if stores.location.is_sqlite else BUCKETS):
        settler = BucketWorker(inbox, bucket, decide_except(1, 2))
        while await settler.turn():
            pass
    warnings = SqlWarningStore(stores.database)
    query = WarningQuery(project_id=DEFAULT_PROJECT, type="", limit=9, offset=0)
    await warnings.delete_copies(ProjectId(999), [], ["ann"])
    await warnings.delete_copies(DEFAULT_PROJECT, [], [])
    assert (await warnings.list_warnings(query))[1] == 2
    await warnings.delete_copies(DEFAULT_PROJECT, [], ["ann"])
    assert [each.distinct_id for each in (await warnings.list_warnings(query))[0]] == ["bob"]
    await warnings.delete_copies(DEFAULT_PROJECT, [captured[1].uuid], [])
    assert (await warnings.list_warnings(query))[1] == 0


async def test_row_changed_by_another_process_is_not_dead_lettered(
    inbox: SqlInboxStore, stores: Stores
) -> None:
    if stores.database.engine_name == "sqlite":
        pytest.skip("one process only")
    await inbox.add(DEFAULT_PROJECT, [build_captured_event(each) for each in range(4)], [], NOW)
    bucket = await find_bucket(inbox)
    (stale,) = await inbox.fetch_unprocessed(bucket)
    other = SqlInboxStore(stores.database, BUCKETS)
    begun = msgspec.structs.replace(stale, events=stale.events[:1], rest=stale.events[1:], number=1)
    assert await other.process(bucket, [begun], decide, NOW)
    assert not await inbox.process(bucket, [stale], decide, NOW)
    assert not await inbox.dead_letter_unprocessed(bucket, stale, "why", NOW)
    left = select(func.sum(inbox_table.c.number))
    assert await stores.fetch_scalar(left) == 3


async def test_retried_dead_letters_are_processed_in_batches(
    inbox: SqlInboxStore, stores: Stores
) -> None:
    packed = msgspec.msgpack.encode([build_captured_event(1)])
    again = {"bucket": 0, "project_id": DEFAULT_PROJECT, "number": 0, "accepted_ms": 0}
    rows = [again | {"events": packed}] * (PROCESS_BATCH_EVENTS + 1)
    await stores.database.write(
        lambda connection: connection.execute(insert(inbox_table), rows).close()
    )
    assert len(await inbox.fetch_unprocessed(0)) == PROCESS_BATCH_EVENTS


@pytest.mark.parametrize(("buckets", "is_data_error_expected"), [(1, True), (BUCKETS, False)])
async def test_events_that_conflict_with_persons_are_poison(
    inbox: SqlInboxStore, stores: Stores, buckets: int, is_data_error_expected: bool
) -> None:
    await inbox.add(DEFAULT_PROJECT, [build_captured_event(1)], [], NOW)
    bucket = await find_bucket(inbox)
    if stores.database.engine_name == "sqlite" and buckets > 1:
        pytest.skip("one process only")

    def moved(*_: Any) -> ProcessingResult:
        raise ConcurrentPersonChangeError

    worker = SqlInboxStore(stores.database, buckets)
    rows = await worker.fetch_unprocessed(bucket)
    with pytest.raises((RuntimeError, Unavailable)) as raised:
        await worker.process(bucket, rows, moved, NOW)
    assert is_data_error(raised.value) is is_data_error_expected


async def test_counting_dead_letters_does_not_read_their_bytes(stores: Stores) -> None:
    if stores.database.engine_name != "sqlite":
        pytest.skip("PostgreSQL stores large values separately")

    def plan(connection: Connection) -> str:
        query = select(func.sum(set_aside_events.c.number))
        return str(connection.execute(text(f"EXPLAIN QUERY PLAN {query}")).all())

    assert "USING COVERING INDEX" in await stores.database.read(plan)


async def test_two_workers_dead_letter_a_row_once(
    inbox: SqlInboxStore, letters: SqlDeadLetterStore
) -> None:
    await inbox.add(DEFAULT_PROJECT, [build_captured_event(1)], [], NOW)
    bucket = await find_bucket(inbox)
    await BucketWorker(inbox, bucket).turn()
    (row,) = await inbox.fetch_processed(bucket)
    await asyncio.gather(*(inbox.dead_letter_processed(bucket, row, "why", NOW) for _ in range(8)))
    assert (await letters.list_oldest(9))[1] == 1


async def test_dead_letters_after_the_decision_are_not_discarded(
    inbox: SqlInboxStore, letters: SqlDeadLetterStore
) -> None:
    assert await letters.newest() == 0
    await inbox.add(DEFAULT_PROJECT, [build_captured_event(1), build_captured_event(2)], [], NOW)
    bucket = await find_bucket(inbox)
    settler = BucketWorker(inbox, bucket, decide_except(1, 2))
    while not await letters.newest():
        await settler.turn()
    decided = await letters.newest()
    while await settler.turn():
        pass
    assert await letters.discard_until(decided) == 1
    assert [each.uuid for each in (await letters.list_oldest(9))[0]] == [
        build_captured_event(2).uuid
    ]


async def test_dead_letters_of_a_project_are_listed_shown_retried_and_discarded(
    inbox: SqlInboxStore, letters: SqlDeadLetterStore, stores: Stores
) -> None:
    await inbox.add(
        DEFAULT_PROJECT, [build_captured_event(number, "ann") for number in range(4)], [], NOW
    )
    settler = BucketWorker(inbox, await find_bucket(inbox), decide_except(0, 1, 2))
    while await settler.turn():
        pass
    other = ProjectId(DEFAULT_PROJECT + 1)
    found, count = await letters.list_of_project(
        DeadLetterQuery(project_id=DEFAULT_PROJECT, search="UNEXPECTED", limit=2, offset=0)
    )
    assert count == 3
    assert [each.uuid for each in found] == [build_captured_event(each).uuid for each in (2, 1)]
    for project_id, search in ((other, ""), (DEFAULT_PROJECT, "%")):
        query = DeadLetterQuery(project_id=project_id, search=search, limit=9, offset=0)
        assert await letters.list_of_project(query) == ([], 0)
    newest, older = found
    assert await letters.find(other, newest.id) is None
    shown = await letters.find(DEFAULT_PROJECT, newest.id)
    assert shown is not None
    assert shown[0] == newest
    assert newest.uuid in str(shown[1])
    before = await stores.count_entries()
    choice = DeadLetterChoice(project_id=other)
    assert (await letters.retry_of_project(choice, 9, RETRIED, NOW)).events == 0
    assert await stores.count_entries() == before
    choice = DeadLetterChoice(project_id=DEFAULT_PROJECT, until=older.id)
    retried = await letters.retry_of_project(choice, 1, RETRIED, NOW)
    assert (retried.events, retried.left) == (1, 1)
    assert await stores.count_entries() == before + 1
    choice = DeadLetterChoice(project_id=DEFAULT_PROJECT, id=newest.id)
    retried = await letters.retry_of_project(choice, 9, RETRIED, NOW)
    assert (retried.events, retried.left) == (1, 0)
    assert [each.id for each in (await letters.list_oldest(9))[0]] == [older.id]
    choice = DeadLetterChoice(project_id=other, id=older.id)
    assert (await letters.discard_of_project(choice, 9, RETRIED, NOW)).events == 0
    before = await stores.count_entries()
    choice = DeadLetterChoice(project_id=DEFAULT_PROJECT, until=older.id)
    discarded = await letters.discard_of_project(choice, 9, RETRIED, NOW)
    assert (discarded.events, discarded.left) == (1, 0)
    assert await stores.count_entries() == before + 1
    assert await letters.list_oldest(9) == ([], 0)
