"""Definitions: several workers save at the same time, within limits, and marks of dead workers."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import insert, select

from hedgerow.definitions.definitions import DefinitionCatalogue
from hedgerow.definitions.model import EventSchemaMode, PropertyKind, PropertyValueType
from hedgerow.definitions.store import (
    EventQuery,
    LearnedEvent,
    LearnedNames,
    LearnedProperty,
    LearningMark,
    PropertyKey,
    PropertyQuery,
)
from hedgerow.ingestion.store import WarningQuery
from hedgerow.storage import tables
from hedgerow.storage.ingestion import learned_names
from hedgerow.storage.ingestion.definition_marks import SqlMarkStore
from hedgerow.storage.ingestion.definitions import SqlDefinitionStore, SqlSchemaStore
from hedgerow.storage.ingestion.ingestion_warnings import SqlWarningStore
from tests.contract.storage.conftest import ACTOR, DEFAULT_PROJECT, LATER, NOW, Stores

SCHEMA: dict[str, Any] = {"required": ["price"]}


def build_names(
    *events: str, type: PropertyValueType | None = PropertyValueType.STRING
) -> LearnedNames:
    key = PropertyKey(PropertyKind.EVENT, -1, "größe")
    return LearnedNames(
        events={(DEFAULT_PROJECT, name): LearnedEvent(NOW, LATER, 3) for name in events},
        properties={(DEFAULT_PROJECT, key): LearnedProperty(NOW, LATER, type)},
        pairs={(DEFAULT_PROJECT, name, "größe") for name in events},
    )


async def list_events(store: SqlDefinitionStore, **fields: Any) -> dict[str, int]:
    found, _ = await store.list_events(EventQuery(project_id=DEFAULT_PROJECT, **fields))
    return {each.name: each.volume_30_day for each in found}


async def test_workers_add_to_the_same_definitions(stores: Stores) -> None:
    store = SqlDefinitionStore(stores.database)
    names = [f"e{number}" for number in range(20)]
    await asyncio.gather(
        *(store.save_learned(build_names(*names[number:]), NOW) for number in range(8))
    )
    assert await list_events(store) == {
        name: 3 * min(8, number + 1) for number, name in enumerate(names)
    }


async def test_first_type_stays_and_spans_grow(stores: Stores) -> None:
    store = SqlDefinitionStore(stores.database)
    await store.save_learned(build_names("e", type=None), NOW)
    await store.save_learned(build_names("e", type=PropertyValueType.NUMERIC), NOW)
    earlier = LearnedEvent(NOW - timedelta(days=1), NOW, 1)
    names = build_names("e", type=PropertyValueType.STRING)
    await store.save_learned(
        LearnedNames(events={(DEFAULT_PROJECT, "e"): earlier}, properties=names.properties), NOW
    )
    [event], _ = await store.list_events(EventQuery(project_id=DEFAULT_PROJECT))
    assert (event.first_seen_at, event.last_seen_at) == (NOW - timedelta(days=1), LATER)
    query = PropertyQuery(project_id=DEFAULT_PROJECT, events=["e"], is_filtered_by_events=True)
    [found], total = await store.list_properties(query)
    assert (found.property_type, found.is_seen_on_events, total) == ("Numeric", True, 1)


async def test_names_beyond_the_limit_are_left_out_with_a_warning(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learned_names, "MAX_EVENTS", 3)
    store = SqlDefinitionStore(stores.database)
    for _ in range(2):
        await store.save_learned(build_names("a", "b", "c", "d", "e"), NOW)
    assert await list_events(store) == {"a": 6, "b": 6, "c": 6}
    query = WarningQuery(project_id=DEFAULT_PROJECT, type="", limit=10, offset=0)
    [warning], _ = await SqlWarningStore(stores.database).list_warnings(query)
    assert warning.type == learned_names.LIMIT_WARNING


async def test_volumes_are_replaced(stores: Stores) -> None:
    store = SqlDefinitionStore(stores.database)
    await store.save_learned(build_names("a", "b"), NOW)
    counted = {"b": LearnedEvent(NOW, NOW, 1), "new": LearnedEvent(NOW, NOW, 7)}
    await store.set_volumes(DEFAULT_PROJECT, counted, NOW)
    assert await list_events(store) == {"a": 0, "b": 1, "new": 7}


async def test_change_keeps_what_workers_learn(stores: Stores) -> None:
    store = SqlDefinitionStore(stores.database)
    project = await stores.new_project()
    definitions = DefinitionCatalogue(store)
    fields = {"schema": SCHEMA, "schema_mode": EventSchemaMode.REJECT, "tags": ("ä", '"')}
    made = await definitions.create_event(project, "e", fields, ACTOR, NOW)
    learned = {(project.id, "e"): LearnedEvent(NOW, LATER, 5)}
    await store.save_learned(LearnedNames(events=learned), NOW)
    changed = await definitions.change_event(project, made.id, {"hidden": True}, ACTOR, LATER)
    assert (changed.volume_30_day, changed.schema, changed.tags) == (5, SCHEMA, ("ä", '"'))
    query = EventQuery(project_id=project.id, tags=['"'])
    assert (await store.list_events(query))[1] == 1
    assert len(await stores.list_entries(scope="EventDefinition")) == 2


async def test_schemas_follow_generations(stores: Stores) -> None:
    schemas, store = SqlSchemaStore(stores.database), SqlDefinitionStore(stores.database)
    project = await stores.new_project()
    assert await schemas.generations_of([project.id]) == {project.id: 0}
    definitions = DefinitionCatalogue(store)
    made = await definitions.create_event(project, "e", {"schema": SCHEMA}, ACTOR, NOW)
    await definitions.create_event(project, "without", {}, ACTOR, NOW)
    [schema] = await schemas.schemas([project.id])
    assert (schema.event, schema.text, schema.mode) == ("e", '{"required":["price"]}', "warn")
    before = await schemas.generations_of([project.id])
    off = {"schema_mode": EventSchemaMode.OFF}
    await definitions.change_event(project, made.id, off, ACTOR, NOW)
    assert await schemas.generations_of([project.id]) != before
    assert await schemas.schemas([project.id]) == []
    await definitions.change_event(
        project, made.id, {"schema": None, "schema_mode": EventSchemaMode.PROJECT}, ACTOR, NOW
    )
    assert await schemas.schemas([project.id]) == []


async def test_only_one_worker_takes_an_abandoned_mark(stores: Stores) -> None:
    marks = SqlMarkStore(stores.database)
    [origin] = await marks.list_abandoned("me", NOW)
    assert origin.holder == "origin"
    await marks.advance("dead", NOW, NOW)
    await marks.advance("alive", NOW, LATER)
    found = await marks.list_abandoned("me", LATER)
    assert {mark.holder for mark in found} == {"origin", "dead"}
    claimed = await marks.claim(origin, NOW, LATER)
    assert claimed == LearningMark(holder="origin", learned_until=NOW, updated_at=LATER)
    assert await marks.claim(origin, LATER, LATER) is None
    await marks.remove("origin")
    assert await marks.claim(claimed, LATER, LATER) is None


async def test_deleted_project_learns_nothing(stores: Stores) -> None:
    project = await stores.new_project()
    deletion = {"project_id": project.id, "requested_at": NOW, "rows_deleted": 0}
    table = tables.ingestion.project_deletions
    await stores.database.write(lambda c: c.execute(insert(table), deletion))
    learned = LearnedNames(events={(project.id, "e"): LearnedEvent(NOW, NOW, 1)})
    await SqlDefinitionStore(stores.database).save_learned(learned, NOW)
    names = select(tables.event_definitions.c.name)
    assert await stores.fetch_scalar(names) is None
