"""Definitions of events and properties: lists, changes, and the schemas for the workers."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    Table,
    and_,
    case,
    delete,
    exists,
    func,
    insert,
    not_,
    null,
    select,
    update,
)

from hedgerow.definitions.model import (
    EventDefinition,
    EventSchema,
    EventSchemaMode,
    PropertyDefinition,
    PropertyKind,
    PropertyValueType,
)
from hedgerow.definitions.store import (
    DefinitionLookup,
    DefinitionStore,
    DefinitionWrites,
    EventQuery,
    LearnedEvent,
    LearnedNames,
    PropertyKey,
    PropertyQuery,
    SchemaStore,
    StoredDefinitions,
)
from hedgerow.lib import jsonio
from hedgerow.projects.model import ProjectId, SchemaMode
from hedgerow.storage.engine import generations
from hedgerow.storage.engine.database import Database
from hedgerow.storage.engine.paging import read_page
from hedgerow.storage.ingestion import learned_names
from hedgerow.storage.projects import activity
from hedgerow.storage.projects.projects import lock_project
from hedgerow.storage.tables import (
    event_definitions,
    event_properties,
    projects,
    property_definitions,
)

# Up to this many projects are looked up one by one: usually there is one.
SINGLE_LOOKUP_LIMIT = 4
_NO_GROUP = -1
# The values of the columns that the workers keep up are theirs: a change must not set them back.
_LEARNED_COLUMNS = frozenset(("first_seen_at", "last_seen_at", "volume_30_day"))
_ORDERS = ("name", "created_at", "first_seen_at", "last_seen_at", "volume_30_day")


class SqlDefinitionStore(DefinitionStore):
    def __init__(self, database: Database) -> None:
        self._database = database

    async def save_learned(self, learned: LearnedNames, now: datetime) -> None:
        await self._database.write(
            lambda connection: learned_names.save_learned(connection, learned, now)
        )

    async def set_volumes(
        self, project_id: ProjectId, events: Mapping[str, LearnedEvent], now: datetime
    ) -> None:
        await self._database.write(
            lambda connection: learned_names.set_volumes(connection, project_id, events, now)
        )

    async def list_events(self, query: EventQuery) -> tuple[list[EventDefinition], int]:
        statement = _select_events(query)

        def run(connection: Connection) -> tuple[list[EventDefinition], int]:
            rows, total = _read(connection, statement, query.limit, query.offset)
            return [_decode_event(row) for row in rows], total

        return await self._database.read(run)

    async def list_properties(self, query: PropertyQuery) -> tuple[list[PropertyDefinition], int]:
        statement = _select_properties(query)

        def run(connection: Connection) -> tuple[list[PropertyDefinition], int]:
            rows, total = _read(connection, statement, query.limit, query.offset)
            return [_decode_property(row) for row in rows], total

        return await self._database.read(run)

    async def find_event(self, project_id: ProjectId, id: str) -> EventDefinition | None:
        return await self._database.read(
            lambda connection: _SqlLookup(connection, project_id).find_event(id)
        )

    async def find_property(self, project_id: ProjectId, id: str) -> PropertyDefinition | None:
        return await self._database.read(
            lambda connection: _SqlLookup(connection, project_id).find_property(id)
        )

    async def load_all(self, project_id: ProjectId) -> StoredDefinitions:
        return await self._database.read(
            lambda connection: _SqlLookup(connection, project_id).load_all()
        )

    async def write(
        self,
        project_id: ProjectId,
        decide: Callable[[DefinitionLookup], DefinitionWrites],
        now: datetime,
    ) -> DefinitionWrites:
        def change(connection: Connection) -> DefinitionWrites:
            lock_project(connection, project_id)
            writes = decide(_SqlLookup(connection, project_id))
            for each in writes.stored:
                _store(connection, each)
            for each in writes.deleted:
                _delete(connection, each)
            for entry in writes.entries:
                activity.record(connection, entry, now)
            if writes.deleted or any(isinstance(each, EventDefinition) for each in writes.stored):
                generations.advance(connection, generations.schema_topic(project_id))
            return writes

        return await self._database.write(change)


class SqlSchemaStore(SchemaStore):
    def __init__(self, database: Database) -> None:
        self._database = database

    async def generations_of(self, project_ids: Collection[ProjectId]) -> Mapping[ProjectId, int]:
        if len(project_ids) > SINGLE_LOOKUP_LIMIT:
            found = await generations.fetch_project_generations(self._database, generations.SCHEMAS)
            return {id: found.get(id, 0) for id in project_ids}
        return {
            id: await generations.fetch_generation(self._database, generations.schema_topic(id))
            for id in project_ids
        }

    async def schemas(self, project_ids: Collection[ProjectId]) -> Sequence[EventSchema]:
        table = event_definitions
        of_project = func.coalesce(projects.c.schema_mode, SchemaMode.WARN.value)
        mode = case(
            (table.c.schema_mode == EventSchemaMode.PROJECT.value, of_project),
            else_=table.c.schema_mode,
        )
        statement = (
            select(table.c.project_id, table.c.name, table.c.schema, mode.label("mode"))
            .join_from(table, projects, projects.c.id == table.c.project_id)
            .where(
                table.c.project_id.in_(project_ids)
                & (mode != SchemaMode.OFF.value)
                & table.c.schema.is_not(null())
            )
        )

        def run(connection: Connection) -> list[EventSchema]:
            return [
                EventSchema(
                    project_id=row.project_id,
                    event=row.name,
                    text=jsonio.encode(row.schema).decode(),
                    mode=SchemaMode(row.mode),
                )
                for row in connection.execute(statement)
                if row.schema is not None
            ]

        return await self._database.read(run)


class _SqlLookup(DefinitionLookup):
    def __init__(self, connection: Connection, project_id: ProjectId) -> None:
        self._connection = connection
        self._project_id = project_id

    def find_event(self, id: str) -> EventDefinition | None:
        row = self._find(event_definitions, event_definitions.c.id == id)
        return None if row is None else _decode_event(row)

    def find_event_by_name(self, name: str) -> EventDefinition | None:
        row = self._find(event_definitions, event_definitions.c.name == name)
        return None if row is None else _decode_event(row)

    def find_property(self, id: str) -> PropertyDefinition | None:
        row = self._find(property_definitions, property_definitions.c.id == id)
        return None if row is None else _decode_property(row)

    def count_events(self) -> int:
        return learned_names.count_rows(self._connection, event_definitions, self._project_id)

    def load_all(self) -> StoredDefinitions:
        events, properties = (
            EventQuery(project_id=self._project_id),
            PropertyQuery(project_id=self._project_id, kind=None),
        )
        rows, _ = _read(self._connection, _select_events(events), None, 0)
        found = [_decode_event(row) for row in rows]
        rows, _ = _read(self._connection, _select_properties(properties), None, 0)
        listed = [_decode_property(row) for row in rows]
        return StoredDefinitions(
            events={each.name: each for each in found},
            properties={property_key(each): each for each in listed},
        )

    def _find(self, table: Table, condition: ColumnElement[bool]) -> Row[Any] | None:
        own = (table.c.project_id == self._project_id) & condition
        return self._connection.execute(select(table).where(own)).one_or_none()


def property_key(definition: PropertyDefinition) -> PropertyKey:
    index = definition.group_type_index
    return PropertyKey(definition.type, _NO_GROUP if index is None else index, definition.name)


def _read(
    connection: Connection, statement: Select[Any], limit: int | None, offset: int
) -> tuple[Sequence[Row[Any]], int]:
    if limit is not None:
        return read_page(connection, statement, limit=limit, offset=offset)
    rows = connection.execute(statement).all()
    return rows, len(rows)


def _select_events(query: EventQuery) -> Select[Any]:
    table = event_definitions
    conditions = _build_conditions(table, query)
    if query.is_posthog is not None:
        starts = table.c.name.startswith("$", autoescape=True)
        conditions.append(starts if query.is_posthog else not_(starts))
    order = [table.c.last_seen_at.desc().nulls_last(), table.c.name]
    if query.order in _ORDERS:
        column = table.c[query.order]
        first = column.desc().nulls_last() if query.is_descending else column.asc().nulls_last()
        order = [first, table.c.name]
    return select(table).where(and_(*conditions)).order_by(*order)


def _select_properties(query: PropertyQuery) -> Select[Any]:
    table = property_definitions
    conditions = _build_conditions(table, query)
    if query.kind is not None:
        conditions.append(table.c.type == query.kind.value)
    if query.group_type_index is not None:
        conditions.append(table.c.group_type_index == query.group_type_index)
    if query.excluded:
        conditions.append(table.c.name.not_in(list(query.excluded)))
    if query.excludes_core:
        conditions.append(not_(table.c.name.startswith("$", autoescape=True)))
    if query.is_feature_flag is not None:
        is_flag = table.c.name.startswith("$feature/", autoescape=True)
        conditions.append(is_flag if query.is_feature_flag else not_(is_flag))
    if query.is_numerical is not None:
        is_numeric = func.coalesce(table.c.property_type, "") == PropertyValueType.NUMERIC.value
        conditions.append(is_numeric if query.is_numerical else not_(is_numeric))
    if query.events is None:
        return select(table).where(and_(*conditions)).order_by(table.c.name, table.c.id)
    is_seen = _is_seen(query.events, query.project_id)
    if query.is_filtered_by_events:
        conditions.append(is_seen)
    return (
        select(table, is_seen.label("is_seen_on_events"))
        .where(and_(*conditions))
        .order_by(is_seen.desc(), table.c.name, table.c.id)
    )


def _is_seen(events: Collection[str], project_id: ProjectId) -> ColumnElement[bool]:
    return exists().where(
        (event_properties.c.project_id == project_id)
        & event_properties.c.event.in_(list(events))
        & (event_properties.c.property == property_definitions.c.name)
    )


def _build_conditions(table: Table, query: EventQuery | PropertyQuery) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = [table.c.project_id == query.project_id]
    conditions += [
        func.lower(table.c.name).contains(word, autoescape=True)
        for word in query.search.lower().split()
    ]
    if query.names is not None:
        conditions.append(table.c.name.in_(list(query.names)))
    if query.verified is not None:
        conditions.append(table.c.verified.is_(query.verified))
    if not query.includes_hidden:
        conditions.append(table.c.hidden.is_(False))
    conditions += [
        table.c.tags.contains(jsonio.encode(tag).decode(), autoescape=True) for tag in query.tags
    ]
    return conditions


def _decode_details(row: Row[Any]) -> dict[str, Any]:
    return {**row._mapping, "tags": tuple(jsonio.parse(row.tags.encode()))}


def _decode_event(row: Row[Any]) -> EventDefinition:
    values = _decode_details(row)
    return EventDefinition(**values | {"schema_mode": EventSchemaMode(row.schema_mode)})


def _decode_property(row: Row[Any]) -> PropertyDefinition:
    values = _decode_details(row)
    index, type = row.group_type_index, row.property_type
    seen = values.pop("is_seen_on_events", None)
    return PropertyDefinition(
        **values
        | {
            "type": PropertyKind(row.type),
            "group_type_index": None if index == _NO_GROUP else index,
            "property_type": PropertyValueType(type) if type else None,
            "is_seen_on_events": None if seen is None else bool(seen),
        }
    )


def _store(connection: Connection, each: EventDefinition | PropertyDefinition) -> None:
    values = asdict(each) | {"tags": jsonio.encode(list(each.tags)).decode()}
    table = event_definitions
    if isinstance(each, EventDefinition):
        values["schema_mode"] = each.schema_mode.value
        values["schema"] = null() if each.schema is None else each.schema
    else:
        table = property_definitions
        del values["is_seen_on_events"]
        values["type"] = each.type.value
        values["property_type"] = each.property_type.value if each.property_type else None
        if each.group_type_index is None:
            values["group_type_index"] = _NO_GROUP
    changed = {name: value for name, value in values.items() if name not in _LEARNED_COLUMNS}
    own = table.c.id == each.id
    if not connection.execute(update(table).where(own).values(changed)).rowcount:
        connection.execute(insert(table).values(values))


def _delete(connection: Connection, each: EventDefinition | PropertyDefinition) -> None:
    pairs = event_properties
    own = pairs.c.project_id == each.project_id
    if isinstance(each, EventDefinition):
        connection.execute(delete(event_definitions).where(event_definitions.c.id == each.id))
        connection.execute(delete(pairs).where(own & (pairs.c.event == each.name)))
        return
    connection.execute(delete(property_definitions).where(property_definitions.c.id == each.id))
    if each.type is PropertyKind.EVENT:
        connection.execute(delete(pairs).where(own & (pairs.c.property == each.name)))
