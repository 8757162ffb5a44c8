"""Definitions as code: a document is applied as a whole or refused by name, and changes once."""

from typing import Any

import pytest

from hedgerow.definitions.as_code import DefinitionsAsCode
from hedgerow.definitions.definitions import DefinitionCatalogue
from hedgerow.definitions.model import PropertyKind
from hedgerow.definitions.store import LearnedEvent, LearnedNames, LearnedProperty, PropertyKey
from hedgerow.errors import Conflict, Invalid
from hedgerow.projects.model import Project
from hedgerow.storage.ingestion.definitions import SqlDefinitionStore
from tests.contract.storage.conftest import ACTOR, LATER, NOW, Stores

DOCUMENT: dict[str, Any] = {
    "version": 1,
    "events": [
        {"name": "paid", "description": "Größe", "tags": ["a"], "schema": {"required": ["price"]}},
        {"name": "sent", "hidden": True, "schema_mode": "reject"},
    ],
    "properties": [
        {"name": "price", "verified": True, "property_type": "Numeric"},
        {"name": "seats", "type": "group", "group_type_index": 1, "description": "d"},
    ],
}


async def apply(stores: Stores, project: Project, document: Any) -> list[str]:
    """Apply a document and return the names that it changed."""
    as_code = DefinitionsAsCode(SqlDefinitionStore(stores.database))
    plan = await as_code.plan(project, document, ACTOR, NOW)
    await as_code.apply(plan, ACTOR, NOW)
    return [step.after.name for step in plan.steps]


async def test_document_comes_back_and_is_applied_once(stores: Stores) -> None:
    project = await stores.new_project()
    as_code = DefinitionsAsCode(SqlDefinitionStore(stores.database))
    assert await apply(stores, project, DOCUMENT) == ["paid", "sent", "price", "seats"]
    assert await as_code.export(project) == DOCUMENT
    assert await apply(stores, project, DOCUMENT) == []
    entries = await stores.list_entries(project_id=project.id)
    assert sum(each.entry.scope.endswith("Definition") for each in entries) == 4
    assert await apply(stores, project, {"events": [{"name": "paid"}]}) == ["paid"]
    assert (await as_code.export(project))["events"] == DOCUMENT["events"][1:]


async def test_seen_names_are_left_out_and_keep_what_was_learned(stores: Stores) -> None:
    project = await stores.new_project()
    store = SqlDefinitionStore(stores.database)
    key = PropertyKey(PropertyKind.EVENT, -1, "price")
    learned = LearnedNames(
        events={(project.id, "paid"): LearnedEvent(NOW, LATER, 3)},
        properties={(project.id, key): LearnedProperty(NOW, LATER, None)},
    )
    await store.save_learned(learned, NOW)
    exported = await DefinitionsAsCode(store).export(project)
    assert exported == {"version": 1, "events": [], "properties": []}
    await apply(stores, project, DOCUMENT)
    stored = await store.load_all(project.id)
    assert stored.events["paid"].volume_30_day == 3
    assert stored.properties[key].last_seen_at == LATER


async def test_plan_of_another_state_is_not_applied(stores: Stores) -> None:
    project = await stores.new_project()
    store = SqlDefinitionStore(stores.database)
    as_code = DefinitionsAsCode(store)
    plan = await as_code.plan(project, DOCUMENT, ACTOR, NOW)
    await DefinitionCatalogue(store).create_event(project, "paid", {"description": "x"}, ACTOR, NOW)
    with pytest.raises(Conflict):
        await as_code.apply(plan, ACTOR, NOW)
    assert list((await store.load_all(project.id)).events) == ["paid"]


@pytest.mark.parametrize(
    ("document", "attr"),
    [
        ([], None),
        ({"evens": []}, None),
        ({"version": 2}, "version"),
        ({"events": {}}, "events"),
        ({"events": [{"name": 5}]}, "events[0]: name"),
        ({"events": [{"name": "a", "colour": 1}]}, "events[0] (a)"),
        ({"events": [{"name": "a"}, {"name": "a"}]}, "events[1] (a)"),
        ({"events": [{"name": "a", "verified": "yes"}]}, "events[0] (a): verified"),
        ({"events": [{"name": "a", "verified": True, "hidden": True}]}, "events[0] (a): hidden"),
        ({"events": [{"name": "a", "schema": {"typ": 1}}]}, "events[0] (a): schema"),
        ({"events": [{"name": "a", "schema_mode": "on"}]}, "events[0] (a): schema_mode"),
        ({"properties": [{"name": "a", "type": "session"}]}, "properties[0] (a): type"),
        ({"properties": [{"name": "a", "type": "group"}]}, "properties[0] (a): group_type_index"),
        ({"properties": [{"name": "a", "tags": [""]}]}, "properties[0] (a): tags"),
    ],
)
async def test_error_names_its_place(stores: Stores, document: Any, attr: str | None) -> None:
    project = await stores.new_project()
    with pytest.raises(Invalid) as refused:
        await apply(stores, project, document)
    assert refused.value.attr == attr
