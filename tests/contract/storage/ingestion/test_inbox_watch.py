"""Readers wait for the events of all processes, and for nothing else."""

import asyncio
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
from sqlalchemy import Connection, insert

from hedgerow.ingestion.changed_names import (
    group_name,
    group_type_name,
    hash_in_project,
    list_read_names,
)
from hedgerow.ingestion.inbox_watch import InboxWatch
from hedgerow.ingestion.model import CapturedEvent
from hedgerow.ingestion.persons.changes import PersonChanges
from hedgerow.ingestion.persons.loaded_state import LoadedState
from hedgerow.ingestion.progress import Progress
from hedgerow.ingestion.store import MAX_ROW_ID, PendingQuery, ProcessingResult
from hedgerow.projects.model import ProjectId
from hedgerow.storage.flags.evaluation_context import SqlEvaluationDataStore
from hedgerow.storage.ingestion.inbox import SqlInboxStore
from hedgerow.storage.tables import person_distinct_ids, persons
from tests.contract.storage.conftest import NOW, Stores
from tests.contract.storage.ingestion.conftest import OpenInbox
from tests.support.factories import captured_event

PROJECT, OTHER = ProjectId(1), ProjectId(2)
LONG_S = 60.0


@pytest.fixture
def inbox(stores: Stores, open_any_inbox: OpenInbox) -> SqlInboxStore:
    """The inbox as another process uses it."""
    if stores.database.engine_name == "sqlite":
        pytest.skip("one process works alone there")
    return open_any_inbox(stores, 16)


@pytest.fixture
def watch(inbox: SqlInboxStore) -> InboxWatch:
    return InboxWatch(inbox, Progress())


def _process(_: ProjectId, __: Sequence[CapturedEvent], ___: LoadedState) -> ProcessingResult:
    nothing = PersonChanges(persons=[], groups=[], group_types={})
    return ProcessingResult(events=[], changes=nothing, warnings=[], flag_calls={})


async def _process_first_row(inbox: SqlInboxStore, distinct_id: str = "ann") -> None:
    for bucket in (await inbox.find_work()).unprocessed:
        rows = await inbox.fetch_unprocessed(bucket)
        if rows[0].events[0].distinct_id == distinct_id:
            assert await inbox.process(bucket, rows[:1], _process, NOW)
            return


async def _store_all(inbox: SqlInboxStore) -> None:
    for bucket in await inbox.unstored_buckets():
        await inbox.mark_stored(await inbox.fetch_processed(bucket), {}, NOW)


def _query(distinct_id: str, last: int) -> PendingQuery:
    names = [distinct_id, group_name("acme")]
    keys = [hash_in_project(PROJECT, name) for name in names]
    return PendingQuery(project_id=PROJECT, distinct_id=distinct_id, keys=keys, last=last)


async def _add_person(stores: Stores, *distinct_ids: str) -> None:
    def change(connection: Connection) -> None:
        values = {"project_id": PROJECT, "uuid": "u", "properties": {}, "is_identified": True}
        moments = {"created_at": NOW, "updated_at": NOW}
        (id,) = connection.execute(
            insert(persons).values(**values, **moments).returning(persons.c.id)
        ).one()
        rows = [
            {"project_id": PROJECT, "distinct_id": each, "person_id": id} for each in distinct_ids
        ]
        connection.execute(insert(person_distinct_ids), rows)

    await stores.database.write(change)


@contextmanager
def _poll_in_background(watch: InboxWatch) -> Iterator[None]:
    async def run() -> None:
        while True:
            await watch.poll()
            await asyncio.sleep(0.001)

    task = asyncio.create_task(run())
    try:
        yield
    finally:
        task.cancel()


async def _expect_waiting(reading: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    task = asyncio.create_task(reading)
    await asyncio.sleep(0.1)
    assert not task.done()
    return task


async def _is_stale(
    stores: Stores,
    watch: InboxWatch,
    distinct_id: str,
    project_id: ProjectId = PROJECT,
    **groups: str,
) -> bool:
    """Ask as an evaluation does: the stream first, if there is one, then the database."""
    keys = dict(enumerate(groups.values()))
    if watch.has_stream:
        names = list_read_names(distinct_id, keys)
        if await watch.find_in_stream(project_id, names, timeout_s=LONG_S):
            return True
    data = SqlEvaluationDataStore(stores.database)
    return (await data.load(project_id, distinct_id, keys)).is_stale


async def test_data_is_stale_while_events_that_change_it_are_unprocessed(
    stores: Stores, inbox: SqlInboxStore, watch: InboxWatch
) -> None:
    group = {"$group_type": "company", "$group_key": "acme"}
    events = [
        captured_event("seen", "ann"),
        captured_event("$identify", "bob", {"$anon_distinct_id": "before"}),
        captured_event("$groupidentify", "cleo", group),
    ]
    await inbox.add(PROJECT, events, [], NOW)

    is_stale = partial(_is_stale, stores, watch)
    stale = [each for each in ("ann", "bob", "before", "cleo", "dan") if await is_stale(each)]
    assert stale == ["ann", "bob", "before", "cleo"]
    assert not await is_stale("ann", OTHER)
    assert await is_stale("dan", company="acme")
    assert not await is_stale("dan", company="other")
    for distinct_id in ("ann", "bob", "cleo"):
        await _process_first_row(inbox, distinct_id)
    assert not any([await is_stale(each, company="acme") for each in ("ann", "bob", "before")])


async def test_dead_letters_make_nothing_stale(
    stores: Stores, inbox: SqlInboxStore, watch: InboxWatch
) -> None:
    await inbox.add(PROJECT, [captured_event("seen", "ann")], [], NOW)
    (bucket,) = (await inbox.find_work()).unprocessed
    (row,) = await inbox.fetch_unprocessed(bucket)
    assert await inbox.dead_letter_unprocessed(bucket, row, "bad", NOW)
    assert not await _is_stale(stores, watch, "ann")


async def test_reader_of_a_person_does_not_wait_for_later_events(
    inbox: SqlInboxStore, watch: InboxWatch
) -> None:
    for distinct_id in ("ann", "bob"):
        await inbox.add(PROJECT, [captured_event("seen", distinct_id)], [], NOW)
    last = (await inbox.fetch_positions(PROJECT)).last_unprocessed
    with _poll_in_background(watch):
        reading = watch.wait_until_processed(_query("ann", last), [], timeout_s=LONG_S)
        waiting = await _expect_waiting(reading)
        assert len(watch.take_urgent_buckets()) == 1
        await inbox.add(PROJECT, [captured_event("seen", "ann")], [], NOW)
        await _process_first_row(inbox)
        assert await waiting
        assert not await watch.wait_until_processed(_query("ann", MAX_ROW_ID), [], timeout_s=0.1)
        assert await watch.wait_until_processed(_query("cleo", MAX_ROW_ID), [], timeout_s=LONG_S)


async def test_reader_of_group_types_waits_for_the_events_that_may_create_them(
    inbox: SqlInboxStore, watch: InboxWatch
) -> None:
    groups = {"$groups": {"company": "acme"}}
    await inbox.add(PROJECT, [captured_event("seen", "ann", groups)], [], NOW)
    names = [group_type_name("company")]
    with _poll_in_background(watch):
        reading = watch.wait_until_names_processed(PROJECT, names, timeout_s=LONG_S)
        waiting = await _expect_waiting(reading)
        await _process_first_row(inbox)
        assert await waiting


async def test_events_of_all_distinct_ids_of_a_person_make_it_stale(
    stores: Stores, inbox: SqlInboxStore, watch: InboxWatch
) -> None:
    await _add_person(stores, "ann", "before", "größer")
    last = MAX_ROW_ID
    for distinct_id in ("before", "größer"):
        await inbox.add(PROJECT, [captured_event("seen", distinct_id)], [], NOW)
        assert await _is_stale(stores, watch, "ann")
        ((*buckets,),) = await inbox.find_unprocessed([_query("ann", last)])
        assert len(buckets) == 1
        found = await SqlEvaluationDataStore(stores.database).load(PROJECT, "ann", {})
        if not inbox.has_stream:
            assert found.pending is not None
            assert buckets == found.pending.buckets
        await _process_first_row(inbox, distinct_id)
        assert not await _is_stale(stores, watch, "ann")


async def test_reader_of_all_events_waits_until_they_are_stored(
    inbox: SqlInboxStore, watch: InboxWatch
) -> None:
    await inbox.add(PROJECT, [captured_event("seen", "ann")], [], NOW)
    last = (await inbox.fetch_positions(PROJECT)).last_unprocessed
    with _poll_in_background(watch):
        persons = await _expect_waiting(watch.wait_until_all_processed(PROJECT, timeout_s=LONG_S))
        events = await _expect_waiting(watch.wait_until_stored(PROJECT, last, timeout_s=LONG_S))
        assert await inbox.fetch_reader_announcement()
        await inbox.add(PROJECT, [captured_event("seen", "bob")], [], NOW)
        await _process_first_row(inbox)
        await persons
        await asyncio.sleep(0.05)
        assert not events.done()
        await _store_all(inbox)
        await events
        assert not (await inbox.fetch_positions()).is_empty
