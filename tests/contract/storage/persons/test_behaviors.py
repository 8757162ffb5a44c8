"""Behaviors of cohorts: created with them, built in steps that can be repeated, and removed."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest
from sqlalchemy import func, select

from hedgerow.errors import Invalid, Unavailable
from hedgerow.events import behavior_backfill
from hedgerow.events.behavior_backfill import BehaviorBackfill
from hedgerow.events.deletion import EventSelection
from hedgerow.events.query.executor import QueryExecutor
from hedgerow.persons.behaviors.model import MAX_BEHAVIORS, Behavior, BehaviorState
from hedgerow.persons.behaviors.times import pack_occurrence, unpack_occurrences
from hedgerow.persons.cohorts import CohortFields, Cohorts
from hedgerow.persons.model import Cohort
from hedgerow.storage.persons.behaviors import SqlBehaviorStore
from hedgerow.storage.tables import behavior_times
from tests.contract.storage.conftest import ACTOR, DEFAULT_PROJECT, NOW, Stores

PARTS = 4
IDS = [f"id-{number}" for number in range(20)]


def did(key: str, count: int = 2, **more: Any) -> dict[str, Any]:
    return {
        "type": "behavioral",
        "event_type": "events",
        "key": key,
        "value": "performed_event_multiple",
        "operator": "gte",
        "operator_value": count,
        "time_value": 30,
        "time_interval": "day",
        **more,
    }


async def create_cohort(stores: Stores, *filters: Mapping[str, Any], name: str = "c") -> Cohort:
    fields = CohortFields(name=name, definition={"type": "AND", "values": list(filters)})
    return await Cohorts(stores.cohorts).create(DEFAULT_PROJECT, fields, ACTOR, NOW)


async def change_cohort(stores: Stores, cohort: Cohort, **fields: Any) -> None:
    cohorts = Cohorts(stores.cohorts)
    await cohorts.change(DEFAULT_PROJECT, cohort.id, CohortFields(**fields), ACTOR, NOW)


class EventStoreWithFaults:
    """Stands for the executor of queries: each distinct id has three events. Fails before the part
    with the number `fails_at`, as if the process were killed."""

    def __init__(self, fails_at: int | None = None) -> None:
        self.fails_at = fails_at
        self.queries = 0

    async def execute(self, _: Any, build: Callable[[], Any], *__: Any) -> Any:
        query = build()
        if len(query.select) == 2:
            return SimpleNamespace(rows=[(len(IDS), 3 * len(IDS))])
        if self.queries == self.fails_at:
            raise Unavailable
        self.queries += 1
        where = repr(query.where)
        number = next(each for each in range(PARTS) if _is_part(where, each))
        return SimpleNamespace(rows=[_build_row(id) for id in IDS[number::PARTS]])


def _is_part(where: str, number: int) -> bool:
    return where.rstrip(")]").endswith(f"value={number}")


def _build_row(id: str) -> tuple[Any, ...]:
    times = [(_micros(hours), _uuid(id, hours)) for hours in (1, 2, 3)]
    return id, times[-1], [(-time, uuid) for time, uuid in times]


def _micros(hours: int) -> int:
    return (NOW - timedelta(hours=hours) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(
        microseconds=1
    )


def _uuid(id: str, hours: int) -> str:
    return f"00000000-0000-4000-8000-{hours:04}{int(id[3:]):08}"


def build_backfill(stores: Stores, events: EventStoreWithFaults) -> BehaviorBackfill:
    async def wait() -> None:
        pass

    project = SimpleNamespace(id=DEFAULT_PROJECT, timezone="UTC")
    return BehaviorBackfill(
        SqlBehaviorStore(stores.database),
        cast("QueryExecutor", events),
        wait,
        lambda: True,
        lambda _: cast("Any", project),
        lambda: NOW,
    )


async def list_behaviors(stores: Stores) -> Sequence[Behavior]:
    return await SqlBehaviorStore(stores.database).list_behaviors(DEFAULT_PROJECT)


async def count_of(stores: Stores, distinct_id: str, behavior: Behavior) -> int:
    await stores.persons.upsert_person(
        DEFAULT_PROJECT, [distinct_id], lambda _: {}, lambda *_: None, NOW
    )
    data = await stores.evaluation_data.load(DEFAULT_PROJECT, distinct_id, {})
    assert data.behaviors is not None
    return len(unpack_occurrences(data.behaviors.get(behavior.id, ())).latest)


async def test_building_continues_after_a_crash(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Meanwhile the worker counts new events, and events that the query finds, too."""
    monkeypatch.setattr(behavior_backfill, "PART_IDS", len(IDS) // PARTS)
    await create_cohort(stores, did("a", 9))
    [behavior] = await list_behaviors(stores)
    store = SqlBehaviorStore(stores.database)
    for fails_at in (0, 2, 1):
        with pytest.raises(Unavailable):
            await build_backfill(stores, EventStoreWithFaults(fails_at)).run()
        again = pack_occurrence(NOW - timedelta(hours=1), _uuid("id-0", 1))
        new = pack_occurrence(NOW, _uuid("id-0", fails_at + 10))
        await store.add(DEFAULT_PROJECT, {"id-0": {behavior.id: [again, new]}}, NOW)
    [behavior] = await list_behaviors(stores)
    assert (behavior.state, behavior.done, behavior.total) == (BehaviorState.BUILDING, 3, PARTS)
    assert behavior.progress == 75
    assert (await stores.flags.definitions(DEFAULT_PROJECT, "UTC")).behaviors == {}
    await build_backfill(stores, EventStoreWithFaults()).run()
    [behavior] = await list_behaviors(stores)
    assert (behavior.state, behavior.progress) == (BehaviorState.READY, 100)
    definitions = await stores.flags.definitions(DEFAULT_PROJECT, "UTC")
    assert definitions.behaviors == {behavior.reference: behavior.id}
    counts = [await count_of(stores, id, behavior) for id in IDS]
    assert counts == [6, *[3] * (len(IDS) - 1)]


async def test_behaviors_follow_the_cohorts(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(behavior_backfill, "PART_IDS", len(IDS) // PARTS)
    one = await create_cohort(stores, did("a", 9))
    two = await create_cohort(stores, did("a", 8, negation=True), did("b"), name="two")
    assert len(await list_behaviors(stores)) == 2
    await build_backfill(stores, EventStoreWithFaults()).run()
    await change_cohort(stores, two, definition={"type": "AND", "values": [did("c")]})
    building = [each for each in await list_behaviors(stores) if each.progress < 100]
    assert [each.definition["event"] for each in building] == ["c"]
    for cohort in (one, two):
        await change_cohort(stores, cohort, deleted=True)
    assert await list_behaviors(stores) == []
    backfill = build_backfill(stores, EventStoreWithFaults())
    for _ in range(4):
        await backfill.run()
    assert await SqlBehaviorStore(stores.database).list_unfinished() == []
    left = select(func.count()).select_from(behavior_times)
    assert await stores.fetch_scalar(left) == 0


async def test_a_deletion_that_was_interrupted_is_counted_again(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(behavior_backfill, "PART_IDS", len(IDS) // PARTS)
    await create_cohort(stores, did("a", 9))
    backfill = build_backfill(stores, EventStoreWithFaults())
    await backfill.run()
    [before] = await list_behaviors(stores)
    assert await backfill.begin_deletion(DEFAULT_PROJECT, EventSelection(event="a"))
    monkeypatch.setattr(behavior_backfill, "DELETION_TIME", timedelta(seconds=-1))
    await backfill.run()
    [after] = [each for each in await list_behaviors(stores) if each.progress == 100]
    assert after.id > before.id
    assert (after.reference, after.doubted_at) == (before.reference, None)
    assert await count_of(stores, IDS[0], after) == 3


async def test_limits(stores: Stores) -> None:
    many = [did(f"event {number}") for number in range(MAX_BEHAVIORS + 1)]
    with pytest.raises(Invalid, match="at most 200 different events"):
        await create_cohort(stores, *many)
    with pytest.raises(Invalid, match="at most 10,000 occurrences"):
        await create_cohort(stores, *[did(f"event {number}", 1000) for number in range(10)])
    with pytest.raises(Invalid, match="action 5, which does not exist or"):
        await create_cohort(stores, did("5", event_type="actions"))
    assert await list_behaviors(stores) == []
