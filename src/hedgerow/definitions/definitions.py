"""Operations on definitions: create, change, delete."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeVar
from uuid import uuid4

from hedgerow.definitions.model import (
    MAX_EVENTS,
    EventDefinition,
    PropertyDefinition,
    PropertyKind,
)
from hedgerow.definitions.store import (
    DefinitionLookup,
    DefinitionStore,
    DefinitionWrites,
    EventQuery,
    PropertyQuery,
)
from hedgerow.errors import Invalid, NotFound
from hedgerow.projects.activity import ActivityEntry, Actor, diff_fields
from hedgerow.projects.model import Project

EVENT_SCOPE = "EventDefinition"
PROPERTY_SCOPE = "PropertyDefinition"

D = TypeVar("D", EventDefinition, PropertyDefinition)


class DefinitionCatalogue:
    def __init__(self, store: DefinitionStore) -> None:
        self._store = store

    async def list_events(self, query: EventQuery) -> tuple[list[EventDefinition], int]:
        return await self._store.list_events(query)

    async def list_properties(self, query: PropertyQuery) -> tuple[list[PropertyDefinition], int]:
        return await self._store.list_properties(query)

    async def find_event(self, project: Project, id: str) -> EventDefinition:
        return _require(await self._store.find_event(project.id, id))

    async def find_event_by_name(self, project: Project, name: str) -> EventDefinition:
        query = EventQuery(project_id=project.id, names=[name])
        found, _ = await self._store.list_events(query)
        return _require(found[0] if found else None)

    async def find_property(self, project: Project, id: str) -> PropertyDefinition:
        return _require(await self._store.find_property(project.id, id))

    async def create_event(
        self, project: Project, name: str, fields: Mapping[str, Any], actor: Actor, now: datetime
    ) -> EventDefinition:
        def decide(lookup: DefinitionLookup) -> DefinitionWrites:
            if lookup.find_event_by_name(name) is not None:
                detail = "There is already an event definition with this name."
                raise Invalid(detail, attr="name", code="unique")
            if lookup.count_events() >= MAX_EVENTS:
                raise Invalid(f"A project can have at most {MAX_EVENTS:,} event definitions.")
            made = apply_fields(new_event(project, name, now), fields, actor, now)
            return DefinitionWrites(stored=[made], entries=[build_entry("created", made, actor)])

        [made] = (await self._store.write(project.id, decide, now)).stored
        assert isinstance(made, EventDefinition)
        return made

    async def change_event(
        self, project: Project, id: str, fields: Mapping[str, Any], actor: Actor, now: datetime
    ) -> EventDefinition:
        def decide(lookup: DefinitionLookup) -> DefinitionWrites:
            before = _require(lookup.find_event(id))
            return _build_change(before, apply_fields(before, fields, actor, now), actor)

        await self._store.write(project.id, decide, now)
        return await self.find_event(project, id)

    async def change_property(
        self, project: Project, id: str, fields: Mapping[str, Any], actor: Actor, now: datetime
    ) -> PropertyDefinition:
        def decide(lookup: DefinitionLookup) -> DefinitionWrites:
            before = _require(lookup.find_property(id))
            return _build_change(before, apply_fields(before, fields, actor, now), actor)

        await self._store.write(project.id, decide, now)
        return await self.find_property(project, id)

    async def delete_event(self, project: Project, id: str, actor: Actor, now: datetime) -> None:
        """Delete the definition with its schema. The events stay, and the next one with this name
        creates it anew."""

        def decide(lookup: DefinitionLookup) -> DefinitionWrites:
            before = _require(lookup.find_event(id))
            entry = build_entry("deleted", before, actor)
            return DefinitionWrites(deleted=[before], entries=[entry])

        await self._store.write(project.id, decide, now)

    async def delete_property(self, project: Project, id: str, actor: Actor, now: datetime) -> None:
        def decide(lookup: DefinitionLookup) -> DefinitionWrites:
            before = _require(lookup.find_property(id))
            entry = build_entry("deleted", before, actor)
            return DefinitionWrites(deleted=[before], entries=[entry])

        await self._store.write(project.id, decide, now)


def new_event(project: Project, name: str, now: datetime) -> EventDefinition:
    return EventDefinition(
        id=str(uuid4()), project_id=project.id, name=name, created_at=now, updated_at=now
    )


def new_property(
    project: Project, kind: PropertyKind, index: int | None, name: str, now: datetime
) -> PropertyDefinition:
    return PropertyDefinition(
        id=str(uuid4()),
        project_id=project.id,
        type=kind,
        group_type_index=index,
        name=name,
        created_at=now,
        updated_at=now,
    )


def apply_fields(before: D, fields: Mapping[str, Any], actor: Actor, now: datetime) -> D:
    """Return the definition with these fields. Raises Invalid if they contradict each other."""
    after = replace(before, **fields)
    if after.verified and after.hidden:
        raise Invalid(
            "A definition cannot be both hidden and verified. Send `verified` as false too."
            if fields.get("hidden")
            else "A definition cannot be both hidden and verified. Send `hidden` as false too.",
            attr="hidden" if fields.get("hidden") else "verified",
        )
    if after.verified != before.verified:
        after = replace(
            after,
            verified_at=now if after.verified else None,
            verified_by=(actor.email or actor.name) if after.verified else None,
        )
    if audit_fields(after) == audit_fields(before):
        return before
    return replace(after, updated_at=now, updated_by=actor.email or actor.name)


def build_entry(
    activity: str,
    definition: EventDefinition | PropertyDefinition,
    actor: Actor,
    before: EventDefinition | PropertyDefinition | None = None,
) -> ActivityEntry:
    """Build the entry of the activity log. `before` is the definition before a change."""
    is_event = isinstance(definition, EventDefinition)
    scope = EVENT_SCOPE if is_event else PROPERTY_SCOPE
    now = audit_fields(definition)
    old, new = ({}, now) if activity == "created" else (now, {})
    if before is not None:
        old, new = audit_fields(before), now
    return ActivityEntry(
        scope=scope,
        item_id=definition.id,
        item_name=definition.name,
        activity=activity,
        actor=actor,
        project_id=definition.project_id,
        changes=diff_fields(scope, old, new),
    )


def audit_fields(definition: EventDefinition | PropertyDefinition) -> dict[str, Any]:
    """Return the fields that people change."""
    fields: dict[str, Any] = {
        "description": definition.description,
        "tags": list(definition.tags),
        "verified": definition.verified,
        "hidden": definition.hidden,
    }
    if isinstance(definition, EventDefinition):
        return fields | {
            "owner": definition.owner_id,
            "schema": definition.schema,
            "schema_mode": definition.schema_mode.value,
        }
    type = definition.property_type
    return fields | {"property_type": type.value if type else None}


def _build_change(before: D, after: D, actor: Actor) -> DefinitionWrites:
    if after == before:
        return DefinitionWrites()
    entry = build_entry("updated", after, actor, before)
    return DefinitionWrites(stored=[after], entries=[entry])


def _require(found: D | None) -> D:
    if found is None:
        raise NotFound
    return found
