"""Transformation counts are stored in the transaction of their events."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import msgspec
import pytest

from hedgerow.ingestion.model import CapturedEvent
from hedgerow.ingestion.persons.loaded_state import LoadedState
from hedgerow.ingestion.store import ProcessingResult
from hedgerow.lib.encryption import EncryptionKeys, generate_encryption_key
from hedgerow.pipelines.catalogue import Catalogue
from hedgerow.pipelines.deliveries.model import RetentionPeriods
from hedgerow.pipelines.model import ComponentId, RecordId
from hedgerow.pipelines.store import RecordEdit, RecordKey
from hedgerow.pipelines.transformations.chain import TransformationCounts
from hedgerow.pipelines.transformations.registry import TransformationRegistry
from hedgerow.plugin.component import Family
from hedgerow.projects.model import ProjectId
from hedgerow.storage.deliveries.history import SqlDeliveryHistory
from hedgerow.storage.deliveries.queue import SqlDeliveryStore
from hedgerow.storage.ingestion.inbox import SqlInboxStore
from hedgerow.storage.pipelines.transformation_counts import SqlTransformationHistory
from tests.contract.storage.conftest import DEFAULT_PROJECT, LATER, NOW, Stores, build_record_entry
from tests.contract.storage.ingestion.test_inbox import build_captured_event, decide

CIPHER = EncryptionKeys([generate_encryption_key()])
HOUR_MS = int(NOW.timestamp()) // 3600 * 3_600_000


async def process_batch(
    stores: Stores, *tallies: TransformationCounts, fails: bool = False, later: bool = False
) -> None:
    inbox = SqlInboxStore(stores.database, 1)
    await inbox.add(DEFAULT_PROJECT, [build_captured_event(1)], (), NOW)
    rows = await inbox.fetch_unprocessed(0)

    def decide_batch(
        project_id: ProjectId, events: Sequence[CapturedEvent], known: LoadedState
    ) -> ProcessingResult:
        usual = decide(project_id, events, known)
        return ProcessingResult(
            events=usual.events,
            changes=usual.changes,
            warnings=() if not fails else [None],  # type: ignore[list-item]
            flag_calls={},
            transformation_counts=tallies,
        )

    await inbox.process(0, rows, decide_batch, LATER if later else NOW)


async def list_hours(stores: Stores, id: RecordId) -> list[tuple[int, int, int, int]]:
    found = await SqlTransformationHistory(stores.database).hours(id, HOUR_MS - 1)
    return [(each.hour_ms - HOUR_MS, each.changed, each.dropped, each.failed) for each in found]


async def load_errors(stores: Stores) -> dict[RecordId, str]:
    return dict(await SqlDeliveryStore(stores.database).errors())


async def list_messages(stores: Stores, id: RecordId) -> list[tuple[str, str]]:
    trail = SqlDeliveryHistory(stores.database)
    lines, _ = await trail.logs(id, None, "", limit=10, offset=0)
    return [(logged.line.message, logged.line.uuid) for logged in lines]


async def test_counts_are_summed_by_hour_and_stored_with_their_events(stores: Stores) -> None:
    one = (await stores.new_record(family=Family.TRANSFORMATION)).id
    two = (await stores.new_record(family=Family.TRANSFORMATION)).id
    await process_batch(
        stores,
        TransformationCounts(record_id=two, matched=5),
        TransformationCounts(
            record_id=one, matched=9, changed=3, dropped=2, failed=1, reasons={"bad": "u"}
        ),
    )
    await process_batch(stores, TransformationCounts(record_id=one, matched=1, changed=1))
    await process_batch(
        stores, TransformationCounts(record_id=one, matched=1, dropped=1), later=True
    )
    assert await list_hours(stores, one) == [(0, 4, 2, 1), (3_600_000, 0, 1, 0)]
    assert await list_hours(stores, two) == []
    with pytest.raises(AttributeError):
        await process_batch(
            stores, TransformationCounts(record_id=one, matched=9, changed=9), fails=True
        )
    assert await list_hours(stores, one) == [(0, 4, 2, 1), (3_600_000, 0, 1, 0)]


async def test_error_is_logged_once_and_cleared_on_success(stores: Stores) -> None:
    id = (await stores.new_record(family=Family.TRANSFORMATION)).id
    bad = TransformationCounts(
        record_id=id, matched=2, failed=2, reasons={"bad ü 🌿": "u1", "worse": "u2"}
    )
    for _ in range(3):
        await process_batch(stores, bad)
    assert await load_errors(stores) == {id: "bad ü 🌿"}
    logged = [
        ("The event was left unchanged: worse", "u2"),
        ("The event was left unchanged: bad ü 🌿", "u1"),
    ]
    assert await list_messages(stores, id) == logged
    await process_batch(stores, TransformationCounts(record_id=id))
    assert await load_errors(stores) == {id: "bad ü 🌿"}, "it received no event since"
    await process_batch(stores, TransformationCounts(record_id=id, matched=1))
    assert await load_errors(stores) == {}
    await process_batch(stores, bad)
    assert len(await list_messages(stores, id)) == 4


async def test_batch_with_all_events_dropped_is_completed(stores: Stores) -> None:
    inbox = SqlInboxStore(stores.database, 1)
    await inbox.add(DEFAULT_PROJECT, [build_captured_event(1), build_captured_event(2)], (), NOW)
    (row,) = await inbox.fetch_unprocessed(0)
    empty = msgspec.structs.replace(row, events=[])
    assert await inbox.process(0, [empty], decide, LATER)
    assert await inbox.fetch_unprocessed(0) == []
    (ready,) = await inbox.fetch_processed(0)
    assert (list(ready.events), ready.number) == ([], 2)
    assert await inbox.oldest_accepted_at() == LATER.replace(
        microsecond=LATER.microsecond // 1000 * 1000
    )


async def test_only_enabled_transformations_are_read_in_order(stores: Stores) -> None:
    family = Family.TRANSFORMATION
    last = await stores.new_record(family=family, enabled=True, order=5)
    first = await stores.new_record(family=family, enabled=True, order=1)
    await stores.new_record(family=family)
    await stores.new_record(family=family, enabled=True, deleted=True)
    await stores.new_record(enabled=True)
    other = await stores.new_project()
    read = await stores.pipelines.transformations([DEFAULT_PROJECT, other.id])
    assert [record.id for record in read] == [first.id, last.id]
    assert await stores.pipelines.transformations([other.id]) == []


async def test_change_is_visible_in_the_next_read_for_any_number_of_projects(
    stores: Stores,
) -> None:
    projects = [DEFAULT_PROJECT, *[(await stores.new_project(f"p{n}")).id for n in range(5)]]
    transformations = TransformationRegistry(stores.pipelines, Catalogue(), CIPHER)
    for some in (projects[:2], projects):
        await transformations.refresh(some)
        assert transformations.chains == {}
        created = await stores.new_record(
            family=Family.TRANSFORMATION,
            component_id=ComponentId(65),
            enabled=True,
            project_id=some[-1],
        )
        await transformations.refresh(some)
        assert list(transformations.chains) == [some[-1]]
        await stores.pipelines.edit(
            RecordKey(project_id=some[-1], family=created.family, id=created.id),
            lambda before: RecordEdit(record=replace(before, enabled=False), entry=None),
            build_record_entry,
            NOW,
        )
        await transformations.refresh(some)


async def test_old_counts_are_deleted(stores: Stores) -> None:
    id = (await stores.new_record(family=Family.TRANSFORMATION)).id
    await process_batch(stores, TransformationCounts(record_id=id, matched=1, changed=1))
    records, ages = (
        SqlDeliveryStore(stores.database),
        RetentionPeriods(waiting_ms=1, dead_ms=1, delivered_ms=1),
    )
    await records.expire_old(ages, NOW + timedelta(days=30))
    assert await list_hours(stores, id) == [(0, 1, 0, 0)]
    await records.expire_old(ages, NOW + timedelta(days=31))
    assert await list_hours(stores, id) == []
