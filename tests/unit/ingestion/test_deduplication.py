"""Of several events with the same uuid, one is processed."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hedgerow.errors import Unavailable
from hedgerow.events.model import EventKey
from hedgerow.ingestion.deduplication import (
    PENDING_TTL_S,
    RETRY_LOOKUP_AFTER_S,
    Deduplicator,
    event_keys,
)
from hedgerow.ingestion.model import CapturedEvent, InboxRow
from hedgerow.projects.model import ProjectId

NOW = datetime(2026, 3, 29, 1, 30, tzinfo=UTC)
ONE, OTHER = ProjectId(1), ProjectId(2)


class FakeEventStore:
    """An event store that only looks up acceptances."""

    def __init__(self, accepted: Mapping[EventKey, datetime] | None = None) -> None:
        self.accepted = accepted or {}
        self.failure: Exception | None = None
        self.lookups = 0

    async def acceptances(self, keys: Sequence[EventKey]) -> Mapping[EventKey, datetime]:
        self.lookups += 1
        if self.failure is not None:
            raise self.failure
        return {key: self.accepted[key] for key in keys if key in self.accepted}

    append: Any = None
    delete: Any = None


def captured(uuid: str, at: datetime = NOW) -> CapturedEvent:
    return CapturedEvent(
        uuid=uuid, event="e", distinct_id="ann", properties={}, timestamp=NOW, accepted_at=at
    )


async def new_uuids(
    deduplicator: Deduplicator, *events: CapturedEvent, project: ProjectId = ONE
) -> list[str]:
    loaded = await deduplicator.look_up(
        [InboxRow(id=1, project_id=project, events=events, number=len(events))]
    )
    return [event.uuid for event in loaded.drop_duplicates(project, events)]


@pytest.fixture
async def advance(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Advance the time of the event loop."""
    loop = asyncio.get_running_loop()
    began, passed = loop.time(), [0.0]
    monkeypatch.setattr(loop, "time", lambda: began + passed[0])

    def advance_loop_time(seconds: float) -> None:
        passed[0] += seconds

    return advance_loop_time


async def test_first_event_of_a_uuid_in_a_batch_is_new() -> None:
    deduplicator = Deduplicator(FakeEventStore(), is_only_worker=True)
    assert await new_uuids(deduplicator, captured("a"), captured("b"), captured("a")) == ["a", "b"]


async def test_processed_event_is_a_duplicate_until_stored() -> None:
    event_store = FakeEventStore()
    deduplicator = Deduplicator(event_store, is_only_worker=True)
    deduplicator.mark_processed([(ONE, "a")])
    assert await new_uuids(deduplicator, captured("a"), captured("b")) == ["b"]
    assert await new_uuids(deduplicator, captured("a"), project=OTHER) == ["a"]
    deduplicator.mark_stored([(ONE, "a")])
    assert await new_uuids(deduplicator, captured("a")) == ["a"]  # for example after a deletion
    event_store.accepted = {(ONE, "a"): NOW}
    assert await new_uuids(deduplicator, captured("a", NOW + timedelta(microseconds=1))) == []
    assert await new_uuids(deduplicator, captured("a", NOW - timedelta(days=1))) == []


async def test_reprocessed_event_is_not_its_own_duplicate() -> None:
    deduplicator = Deduplicator(FakeEventStore({(ONE, "a"): NOW}), is_only_worker=True)
    assert await new_uuids(deduplicator, captured("a"), captured("a")) == ["a"]


async def test_events_stored_during_the_lookup_are_detected() -> None:
    deduplicator = Deduplicator(FakeEventStore(), is_only_worker=True)
    deduplicator.mark_processed([(ONE, "a")])
    loaded = await deduplicator.look_up(
        [InboxRow(id=1, project_id=ONE, events=[captured("a")], number=1)]
    )
    deduplicator.mark_stored([(ONE, "a")])
    assert loaded.drop_duplicates(ONE, [captured("a")]) == []


async def test_events_processed_by_another_bucket_are_detected() -> None:
    deduplicator = Deduplicator(FakeEventStore(), is_only_worker=False)
    loaded = await deduplicator.look_up(
        [InboxRow(id=1, project_id=ONE, events=[captured("a")], number=1)]
    )
    deduplicator.mark_processed(event_keys(ONE, [captured("a")]))
    assert loaded.drop_duplicates(ONE, [captured("a")]) == []


async def test_pending_events_expire_unless_this_is_the_only_worker(advance: Any) -> None:
    deduplicator, only_worker = (
        Deduplicator(FakeEventStore(), is_only_worker=False),
        Deduplicator(FakeEventStore(), is_only_worker=True),
    )
    for each in (deduplicator, only_worker):
        each.mark_processed([(ONE, "a")])
    advance(PENDING_TTL_S + 1)
    for each in (deduplicator, only_worker):
        each.mark_processed([(ONE, "b")])
    assert await new_uuids(deduplicator, captured("a"), captured("b")) == ["a"]
    assert await new_uuids(only_worker, captured("a"), captured("b")) == []


@pytest.mark.parametrize("failure", [Unavailable("unavailable"), TimeoutError()])
async def test_unavailable_event_store_is_not_queried_for_a_while(
    advance: Any, failure: Exception
) -> None:
    event_store = FakeEventStore({(ONE, "a"): NOW})
    event_store.failure = failure
    deduplicator = Deduplicator(event_store, is_only_worker=True)
    repeated = captured("a", NOW + timedelta(hours=1))
    assert [await new_uuids(deduplicator, repeated) for _ in range(3)] == [["a"]] * 3
    assert event_store.lookups == 1
    event_store.failure = None
    advance(RETRY_LOOKUP_AFTER_S + 1)
    assert await new_uuids(deduplicator, repeated) == []
