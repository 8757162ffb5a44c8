"""The size and age of the inbox backlog, and releasing leases."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from hedgerow.ingestion.model import CapturedEvent
from hedgerow.ingestion.persons.changes import PersonChanges
from hedgerow.ingestion.persons.loaded_state import LoadedState
from hedgerow.ingestion.store import PROCESS_BATCH_EVENTS, InboxBacklog, ProcessingResult
from hedgerow.projects.model import ProjectId
from hedgerow.storage.ingestion.inbox import SqlInboxStore
from tests.contract.storage.conftest import Stores, run_sql
from tests.support.factories import captured_event

PROJECT = ProjectId(1)
GROUP = {"$group_type": "team", "$group_key": "y"}
AT = datetime(2026, 3, 29, 1, 30, tzinfo=UTC)


def _process(_: ProjectId, arrived: Sequence[CapturedEvent], __: LoadedState) -> ProcessingResult:
    nothing = PersonChanges(persons=[], groups=[], group_types={})
    return ProcessingResult(events=[], changes=nothing, warnings=[], flag_calls={})


async def _add(inbox: SqlInboxStore, number: int, at: datetime) -> None:
    event = msgspec.structs.replace(captured_event(), accepted_at=at)
    await inbox.add(PROJECT, [event] * number, [], at)


async def test_backlog_is_counted_and_keeps_its_age_when_processed(
    stores: Stores,
) -> None:
    inbox = SqlInboxStore(stores.database, 1)
    assert await inbox.count_backlog() == InboxBacklog()
    assert await inbox.oldest_accepted_at() is None
    await _add(inbox, 3, AT)
    await _add(inbox, 2, AT + timedelta(minutes=1))
    assert await inbox.count_backlog() == InboxBacklog(unprocessed={PROJECT: 5})
    first, second = await inbox.fetch_unprocessed(0)
    assert await inbox.process(0, [first], _process, AT)
    assert await inbox.count_backlog() == InboxBacklog(
        unprocessed={PROJECT: 2}, unstored={PROJECT: 3}
    )
    assert await inbox.oldest_accepted_at() == AT
    await inbox.mark_stored(await inbox.fetch_processed(0), {}, AT)
    assert await inbox.oldest_accepted_at() == AT + timedelta(minutes=1)
    assert await inbox.process(0, [second], _process, AT)
    await inbox.mark_stored(await inbox.fetch_processed(0), {}, AT)
    assert await inbox.oldest_accepted_at() is None


async def test_released_buckets_are_available_at_once(
    stores: Stores,
) -> None:
    if stores.database.engine_name == "sqlite":
        pytest.skip("one process works alone there")
    one, other = SqlInboxStore(stores.database, 2), SqlInboxStore(stores.database, 2)
    await _add(one, 1, AT)
    (bucket,) = [bucket for bucket in (0, 1) if await one.fetch_unprocessed(bucket)]
    assert await one.process(bucket, await one.fetch_unprocessed(bucket), _process, AT)
    assert await one.fetch_processed(bucket)
    assert not await other.fetch_processed(bucket)
    await other.release_leases()
    assert not await other.fetch_processed(bucket)
    await one.release_leases()
    assert await other.fetch_processed(bucket)


async def test_unprocessed_names_have_the_number_of_their_last_event(stores: Stores) -> None:
    inbox = SqlInboxStore(stores.database, 1)
    assert await inbox.list_unprocessed_names() == {}
    other = (await stores.new_project()).id
    for project, events in (
        (PROJECT, [captured_event(distinct_id="ann"), captured_event(distinct_id="bob")]),
        (PROJECT, [captured_event("$identify", "bob", {"$anon_distinct_id": "before"})]),
        (PROJECT, [captured_event("seen", "cleo", {"$groups": {"company": "x"}, "n": 2**70})]),
        (PROJECT, [captured_event("$groupidentify", "ann", GROUP)]),
        *((PROJECT, [captured_event(distinct_id="dora")]) for _ in range(20)),
        (PROJECT, [captured_event(distinct_id="dora")] * PROCESS_BATCH_EVENTS),
        (other, [captured_event(distinct_id="naïve 🌿")]),
    ):
        await inbox.add(project, events, [], AT)
    assert await inbox.list_unprocessed_names() == {
        PROJECT: {
            "ann": 5,
            "bob": 3,
            "before": 3,
            "cleo": 4,
            "$group_type:company": 4,
            "$group_type:team": 5,
            "$group:y": 5,
            "dora": 25 + PROCESS_BATCH_EVENTS,
        },
        other: {"naïve 🌿": 1},
    }


async def test_damaged_row_has_no_names(stores: Stores) -> None:
    inbox = SqlInboxStore(stores.database, 1)
    for distinct_id in ("ann", "bob"):
        await inbox.add(PROJECT, [captured_event(distinct_id=distinct_id)], [], AT)
    damage = "UPDATE inbox SET events = substr(events, 1, 9) WHERE id = (SELECT min(id) FROM inbox)"
    run_sql(stores.location, damage)
    assert await inbox.list_unprocessed_names() == {PROJECT: {"bob": 2}}
