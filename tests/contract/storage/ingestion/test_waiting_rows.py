"""Projects take turns in the batches of the inbox."""

from collections import Counter

import pytest

from hedgerow.ingestion.store import PROCESS_BATCH_EVENTS, InboxPositions
from hedgerow.projects.model import ProjectId
from hedgerow.storage.ingestion import waiting_rows
from hedgerow.storage.ingestion.inbox import SqlInboxStore
from tests.contract.storage.conftest import DEFAULT_PROJECT, NOW, Stores
from tests.contract.storage.ingestion.test_inbox import build_captured_event, decide

FLOOD = DEFAULT_PROJECT
ROW_EVENTS = 20


@pytest.fixture
async def queue(stores: Stores) -> SqlInboxStore:
    return SqlInboxStore(stores.database, 1)


async def _fill(queue: SqlInboxStore, project_id: ProjectId, rows: int, first: int = 0) -> None:
    for number in range(rows):
        start = first + number * ROW_EVENTS
        events = [build_captured_event(start + each) for each in range(ROW_EVENTS)]
        await queue.add(project_id, events, (), NOW)


async def _process_batch(queue: SqlInboxStore) -> Counter[ProjectId]:
    rows = await queue.fetch_unprocessed(0)
    if rows:
        assert await queue.process(0, rows, decide, NOW)
    counts: Counter[ProjectId] = Counter()
    for row in rows:
        counts[row.project_id] += row.number
    return counts


async def test_a_project_does_not_wait_for_the_backlog_of_another(
    stores: Stores, queue: SqlInboxStore
) -> None:
    other = (await stores.new_project()).id
    await _fill(queue, FLOOD, 3 * PROCESS_BATCH_EVENTS // ROW_EVENTS)
    await _fill(queue, other, 1)
    batch = await _process_batch(queue)
    assert batch[other] == ROW_EVENTS
    assert batch.total() > 0.9 * PROCESS_BATCH_EVENTS


async def test_projects_that_wait_get_equal_shares(stores: Stores, queue: SqlInboxStore) -> None:
    others = [(await stores.new_project(f"Project {each}")).id for each in range(3)]
    await _fill(queue, FLOOD, 3 * PROCESS_BATCH_EVENTS // ROW_EVENTS)
    for each in others:
        await _fill(queue, each, PROCESS_BATCH_EVENTS // ROW_EVENTS)
    batch = await _process_batch(queue)
    assert set(batch) == {FLOOD, *others}
    assert max(batch.values()) <= min(batch.values()) + ROW_EVENTS


async def test_events_of_each_project_stay_in_their_order(
    stores: Stores, queue: SqlInboxStore
) -> None:
    other = (await stores.new_project()).id
    for start in range(0, 60, 3):
        await _fill(queue, FLOOD, 3, first=start * ROW_EVENTS)
        await _fill(queue, other, 1, first=start * ROW_EVENTS)
    while await _process_batch(queue):
        pass
    seen: dict[ProjectId, list[str]] = {}
    while rows := await queue.fetch_processed(0):
        for row in rows:
            seen.setdefault(row.project_id, []).extend(event.uuid for event in row.events)
        await queue.mark_stored(rows, {}, NOW)
    assert {id: len(uuids) for id, uuids in seen.items()} == {
        FLOOD: 60 * ROW_EVENTS,
        other: 20 * ROW_EVENTS,
    }
    assert all(uuids == sorted(uuids) for uuids in seen.values())


async def test_every_project_has_its_turn_if_there_are_many(
    stores: Stores, queue: SqlInboxStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting_rows, "MAX_PROJECTS_PER_BATCH", 2)
    monkeypatch.setattr(waiting_rows, "MAX_LISTED_PROJECTS", 3)
    projects = [FLOOD, *[(await stores.new_project(f"Project {each}")).id for each in range(6)]]
    for each in projects:
        await _fill(queue, each, 6 * PROCESS_BATCH_EVENTS // ROW_EVENTS // len(projects))
    served: set[ProjectId] = set()
    for _ in range(2 * len(projects)):
        served |= set(await _process_batch(queue))
    assert served == set(projects)


async def test_positions_of_a_project_are_its_own(stores: Stores) -> None:
    buckets = 1 if stores.location.is_sqlite else 16
    queue = SqlInboxStore(stores.database, buckets)
    other = (await stores.new_project()).id
    for number in range(40):
        event = build_captured_event(number, f"person-{number}")
        await queue.add(FLOOD if number else other, [event], (), NOW)
    everything = await queue.fetch_positions()
    own, of_flood = [await queue.fetch_positions(id) for id in (other, FLOOD)]
    assert own.first_unprocessed == own.last_unprocessed == everything.first_unprocessed
    assert of_flood.last_unprocessed == everything.last_unprocessed
    assert of_flood.first_unprocessed > own.last_unprocessed
    for bucket in range(buckets):
        for row in await queue.fetch_unprocessed(bucket):
            if row.project_id == other:
                assert await queue.process(bucket, [row], decide, NOW)
    own, of_flood = [await queue.fetch_positions(id) for id in (other, FLOOD)]
    assert (own.first_unprocessed, own.last_unprocessed) == (
        InboxPositions().first_unprocessed,
        0,
    )
    assert own.last_unstored
    assert not of_flood.last_unstored


async def test_large_rows_are_read_like_small_ones(queue: SqlInboxStore) -> None:
    events = [build_captured_event(number, text="x" * 300_000) for number in range(6)]
    for event in events:
        await queue.add(FLOOD, [event], (), NOW)
    for _ in range(3):  # the size of the rows is known from the second time on
        rows = await queue.fetch_unprocessed(0)
        assert [event for row in rows for event in row.events] == events
