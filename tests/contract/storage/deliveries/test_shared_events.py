"""An event is stored once for all its destinations, and deleted when none needs it any more."""

from collections.abc import Sequence
from datetime import timedelta
from functools import partial

from sqlalchemy import func, select

from hedgerow.pipelines.deliveries.model import DeliveryReport, DeliveryStatus, NewDelivery
from hedgerow.pipelines.deliveries.retry import NOT_PAUSED, DeadDelivery, RetryAt
from hedgerow.pipelines.model import RecordId
from hedgerow.pipelines.store import Backlog, DeliveryQuery
from hedgerow.storage.deliveries.backlogs import SqlBacklogStore
from hedgerow.storage.deliveries.history import SqlDeliveryHistory
from hedgerow.storage.deliveries.new_deliveries import add_deliveries
from hedgerow.storage.deliveries.queue import SqlDeliveryStore
from hedgerow.storage.tables import deliveries, delivery_batches, delivery_events
from tests.contract.storage.conftest import DEFAULT_PROJECT, NOW, Stores, run_sql
from tests.contract.storage.deliveries.test_queue import NOW_MS, PERIODS, build_pause_entry, event

AGAIN = RetryAt(due_ms=NOW_MS + 1000, attempts=1, reason="HTTP 500")
DEAD = DeadDelivery(since_ms=NOW_MS, attempts=1, reason="HTTP 400")


async def add(stores: Stores, *made: NewDelivery) -> SqlDeliveryStore:
    await stores.database.write(partial(add_deliveries, made=made, now=NOW))
    return SqlDeliveryStore(stores.database)


async def new_records(stores: Stores, number: int) -> list[RecordId]:
    return [(await stores.new_record(enabled=True)).id for _ in range(number)]


async def count_rows(stores: Stores) -> tuple[int, int, int]:
    """Count events, batches and deliveries that have failed."""
    events, batches, failed = [
        int(await stores.fetch_scalar(select(func.count()).select_from(table)))
        for table in (delivery_events, delivery_batches, deliveries)
    ]
    return events, batches, failed


async def deliver_all(store: SqlDeliveryStore, record_id: RecordId) -> Sequence[int]:
    ids = [each.id for each in await store.due(record_id, 1000, NOW_MS + 10_000)]
    await store.save_report(
        DeliveryReport(record_id=record_id, pause_state=NOT_PAUSED, delivered=ids), NOW
    )
    await store.delete_delivered()
    return ids


async def test_event_is_stored_once_and_deleted_after_its_last_delivery(stores: Stores) -> None:
    ids = await new_records(stores, 3)
    store = await add(stores, *(NewDelivery(event=event(n), record_ids=ids) for n in range(5)))
    assert await count_rows(stores) == (5, 3, 0)
    for id in ids[:2]:
        assert [each.event for each in await store.due(id, 10, NOW_MS)] == [
            event(number) for number in range(5)
        ]
        await deliver_all(store, id)
    assert await count_rows(stores) == (5, 1, 0)
    assert await store.find_due(ids, NOW_MS) == {ids[2]}
    await deliver_all(store, ids[2])
    assert await count_rows(stores) == (0, 0, 0)


async def test_failed_deliveries_share_their_event_and_keep_it_alone(stores: Stores) -> None:
    ids = await new_records(stores, 2)
    store = await add(stores, *(NewDelivery(event=event(n), record_ids=ids) for n in range(4)))
    for id in ids:
        one, two, three, _ = await store.due(id, 10, NOW_MS)
        report = DeliveryReport(
            record_id=id,
            pause_state=NOT_PAUSED,
            retried={one.id: AGAIN},
            dead={two.id: DEAD},
            delivered=[three.id],
        )
        await store.save_report(report, NOW)
    assert await count_rows(stores) == (4, 2, 4)
    assert await store.find_due(ids, NOW_MS + 999) == set(ids)
    # The events that wait, then also those that are retried.
    for id in ids:
        assert len(await store.due(id, 10, NOW_MS)) == 1
        assert len(await deliver_all(store, id)) == 2
    assert await count_rows(stores) == (1, 0, 2)
    assert await store.find_due(ids, NOW_MS + 10_000) == set()
    await store.expire_old(PERIODS, NOW + timedelta(days=31))
    assert await count_rows(stores) == (0, 0, 0)


async def test_a_paused_destination_keeps_only_its_own_events(stores: Stores) -> None:
    paused, busy = await new_records(stores, 2)
    made = [NewDelivery(event=event(n), record_ids=[busy]) for n in range(9)]
    made[4] = NewDelivery(event=event(4), record_ids=[busy, paused])
    store = await add(stores, *made)
    await deliver_all(store, busy)
    assert await count_rows(stores) == (9, 1, 0)
    await store.expire_old(PERIODS, NOW)
    assert await count_rows(stores) == (1, 1, 0)
    assert [each.event for each in await store.due(paused, 10, NOW_MS)] == [event(4)]


async def test_events_that_a_killed_process_left_are_deleted(stores: Stores) -> None:
    (id,) = await new_records(stores, 1)
    store = await add(stores, NewDelivery(event=event(1), record_ids=[id]))
    (one,) = await store.due(id, 10, NOW_MS)
    report = DeliveryReport(record_id=id, pause_state=NOT_PAUSED, delivered=[one.id])
    await store.save_report(report, NOW)
    other = SqlDeliveryStore(stores.database)
    await other.delete_delivered()
    assert await count_rows(stores) == (1, 0, 0)
    await other.expire_old(PERIODS, NOW)
    assert await count_rows(stores) == (0, 0, 0)


async def test_ids_are_not_used_again(stores: Stores) -> None:
    """A report about an event that was deleted must not reach a later one."""
    (id,) = await new_records(stores, 1)
    store = await add(stores, NewDelivery(event=event(1), record_ids=[id]))
    (first,) = await deliver_all(store, id)
    await add(stores, NewDelivery(event=event(2), record_ids=[id]))
    (second,) = await store.due(id, 10, NOW_MS)
    assert second.id > first


async def test_deletion_of_events_reaches_all_destinations(stores: Stores) -> None:
    ids = await new_records(stores, 3)
    by_ann, by_bob = event(1), event(2, by="bob")
    store = await add(
        stores, *(NewDelivery(event=each, record_ids=ids) for each in (by_ann, by_bob))
    )
    (of_ann, _) = await store.due(ids[0], 10, NOW_MS)
    report = DeliveryReport(record_id=ids[0], pause_state=NOT_PAUSED, dead={of_ann.id: DEAD})
    report.entry = build_pause_entry(ids[0], "x")
    await store.save_report(report, NOW)
    assert await store.delete_copies(DEFAULT_PROJECT, [], ["ann"]) == 3
    assert await count_rows(stores) == (1, 3, 0)
    backlogs = await SqlBacklogStore(stores.database).backlogs()
    expected = Backlog(project_id=DEFAULT_PROJECT, waiting=1, oldest_ms=NOW_MS)
    assert backlogs == dict.fromkeys(ids, expected)
    for id in ids:
        assert [each.event for each in await store.due(id, 10, NOW_MS)] == [by_bob]


async def test_deletion_of_many_events_works_in_steps(stores: Stores) -> None:
    ids = await new_records(stores, 2)
    made = [NewDelivery(event=event(n), record_ids=ids) for n in range(250)]
    store = await add(stores, *made[:120])
    await add(stores, *made[120:])
    assert await store.delete_copies(DEFAULT_PROJECT, [], ["ann"]) == 500
    assert await count_rows(stores) == (0, 0, 0)


async def test_all_deliveries_of_a_destination_are_listed_newest_first(stores: Stores) -> None:
    id, other = await new_records(stores, 2)
    people = ["ann", "bob", "cid", "bob"]
    store = await add(
        stores,
        *(NewDelivery(event=event(n, by), record_ids=[id, other]) for n, by in enumerate(people)),
    )
    one, two, *_ = await store.due(id, 10, NOW_MS)
    report = DeliveryReport(
        record_id=id, pause_state=NOT_PAUSED, retried={one.id: AGAIN}, dead={two.id: DEAD}
    )
    await store.save_report(report, NOW)
    history = SqlDeliveryHistory(stores.database)

    async def list_uuids(*statuses: DeliveryStatus, limit: int = 10, **query: str) -> list[str]:
        wanted = DeliveryQuery(record_id=id, statuses=statuses, **query)
        views, total = await history.deliveries(wanted, limit=limit, offset=0)
        if limit == 10:
            assert total == len(views)
        return [f"{each.uuid[-1]} {each.status}" for each in views]

    assert await list_uuids() == ["3 waiting", "2 waiting", "1 dead", "0 retrying"]
    assert await list_uuids(limit=2) == ["3 waiting", "2 waiting"]
    assert await list_uuids(DeliveryStatus.WAITING) == ["3 waiting", "2 waiting"]
    assert await list_uuids(DeliveryStatus.DEAD) == ["1 dead"]
    assert await list_uuids(search="bob") == ["3 waiting", "1 dead"]
    assert await list_uuids(search=event(2).uuid.upper()) == ["2 waiting"]
    assert await list_uuids(search="400") == ["1 dead"]
    assert await list_uuids(error="HTTP 500") == ["0 retrying"]
    (view, *_), total = await history.deliveries(DeliveryQuery(record_id=id), limit=1, offset=1)
    assert (view.event, view.attempts, view.created_ms, total) == (event(2, "cid"), 0, NOW_MS, 4)


async def test_a_waiting_delivery_can_be_retried_now(stores: Stores) -> None:
    id, other = await new_records(stores, 2)
    store = await add(
        stores, *(NewDelivery(event=event(n), record_ids=[id, other]) for n in range(3))
    )
    _, second, _ = await store.due(id, 10, NOW_MS)
    history = SqlDeliveryHistory(stores.database)
    entry = build_pause_entry(id, "x")
    view = await history.retry_now(id, second.id, entry, NOW)
    assert view is not None
    assert (view.id, view.status) == (second.id, DeliveryStatus.RETRYING)
    assert [each.event for each in await store.due(id, 10, NOW_MS)] == [
        event(1),
        event(0),
        event(2),
    ]
    assert len(await store.due(other, 10, NOW_MS)) == 3
    assert await history.retry_now(id, second.id + 1000, entry, NOW) is None


async def test_a_batch_whose_events_are_gone_ends(stores: Stores) -> None:
    """Nothing deletes them, but a damaged database may lack them."""
    first, second = await new_records(stores, 2)
    store = await add(stores, NewDelivery(event=event(1), record_ids=[first, second]))
    run_sql(stores.location, "DELETE FROM delivery_events")
    assert await store.due(first, 10, NOW_MS) == []
    assert await count_rows(stores) == (0, 1, 0)
    await store.expire_old(PERIODS, NOW + timedelta(days=8))
    assert await count_rows(stores) == (0, 0, 0)
