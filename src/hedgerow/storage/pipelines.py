"""Pipeline records' SQL. Changes of one family of one project run one after another."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, func, insert, or_, select, update

from hedgerow.errors import NotFound
from hedgerow.pipelines.arrange import with_room_at, with_room_at_the_end
from hedgerow.pipelines.model import Family, Record, RecordDraft, RecordId
from hedgerow.pipelines.numbers import INT32_MAX, INT32_MIN, too_large
from hedgerow.pipelines.store import Batch, Edited, Place, RecordQuery, Tell
from hedgerow.projects.activity import Entry
from hedgerow.projects.model import ProjectId
from hedgerow.storage import activity, generations
from hedgerow.storage.database import Database
from hedgerow.storage.locks import lock_project
from hedgerow.storage.tables import idempotency_keys
from hedgerow.storage.tables import pipeline_records as table

TOPIC = "records:"
# Events that are still on their way were accepted after all but a few of them.
SWITCHES_KEPT = 20
# So many are asked about one by one.
FEW_PROJECTS = 4


class PipelineRecords:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def records(self, query: RecordQuery) -> tuple[list[Record], int]:
        wanted = _wanted(query)

        def run(connection: Connection) -> tuple[list[Record], int]:
            count = connection.execute(
                select(func.count()).select_from(table).where(wanted)
            ).scalar_one()
            page = (
                select(table)
                .where(wanted)
                .order_by(table.c.order, table.c.id)
                .limit(query.limit)
                .offset(query.offset)
            )
            return [record_from(row) for row in connection.execute(page)], count

        return await self._database.read(run)

    async def all_records(self, project_id: ProjectId) -> list[Record]:
        return await self._database.read(lambda connection: _all(connection, project_id))

    async def generation(self, project_id: ProjectId) -> int:
        return await generations.number_of(self._database, _topic(project_id))

    async def record(self, place: Place) -> Record | None:
        return await self._database.read(lambda connection: _find(connection, place))

    async def served(self, id: RecordId, web_token: str) -> Record | None:
        """An enabled record by the token of its public script."""
        statement = select(table).where(
            (table.c.id == id)
            & (table.c.web_token == web_token)
            & table.c.enabled.is_(True)
            & table.c.deleted.is_(False)
        )

        def run(connection: Connection) -> Record | None:
            row = connection.execute(statement).one_or_none()
            return None if row is None else record_from(row)

        return await self._database.read(run)

    async def served_apps(self, project_ids: Sequence[ProjectId]) -> list[Record]:
        return await self._enabled(Family.FRONTEND_APP, project_ids)

    async def transformations(self, project_ids: Sequence[ProjectId]) -> list[Record]:
        return await self._enabled(Family.TRANSFORMATION, project_ids)

    async def _enabled(self, family: Family, project_ids: Sequence[ProjectId]) -> list[Record]:
        statement = (
            select(table)
            .where(
                table.c.project_id.in_(project_ids)
                & (table.c.family == family.value)
                & table.c.enabled.is_(True)
                & table.c.deleted.is_(False)
            )
            .order_by(table.c.order, table.c.id)
        )
        return await self._database.read(
            lambda connection: [record_from(row) for row in connection.execute(statement)]
        )

    async def destinations(self, project_ids: Sequence[ProjectId]) -> list[Record]:
        statement = select(table).where(
            table.c.project_id.in_(project_ids)
            & (table.c.family == Family.DESTINATION.value)
            & table.c.deleted.is_(False)
        )
        return await self._database.read(
            lambda connection: [record_from(row) for row in connection.execute(statement)]
        )

    async def generations_of(self, project_ids: Collection[ProjectId]) -> Mapping[ProjectId, int]:
        """Most often of one, among many that there are."""
        if len(project_ids) > FEW_PROJECTS:
            numbers = await self.generations()
            return {id: numbers.get(id, 0) for id in project_ids}
        return {id: await self.generation(id) for id in project_ids}

    async def generations(self) -> Mapping[ProjectId, int]:
        return await generations.project_numbers(self._database, TOPIC)

    async def add(
        self,
        draft: RecordDraft,
        tell: Tell,
        idempotency_key: str | None,
        now: datetime,
    ) -> Record:
        def change(connection: Connection) -> Record:
            lock_project(connection, draft.project_id)
            if idempotency_key is not None:
                before = _made_with(connection, draft, idempotency_key)
                if before is not None:
                    return before
            record = _insert(connection, draft, tell, now)
            if idempotency_key is not None:
                connection.execute(
                    insert(idempotency_keys),
                    {
                        "project_id": draft.project_id,
                        "family": draft.family.value,
                        "key": idempotency_key,
                        "record_id": record.id,
                        "created_at": now,
                    },
                )
            activity.record(connection, tell(None, record), now)
            generations.advance(connection, _topic(draft.project_id))
            return record

        return await self._database.write(change)

    async def edit(
        self, place: Place, edit: Callable[[Record], Edited], tell: Tell, now: datetime
    ) -> Record:
        def change(connection: Connection) -> Record:
            lock_project(connection, place.project_id)
            before = _find(connection, place)
            if before is None:
                raise NotFound
            edited = edit(before)
            if edited.record.is_same_as(before):
                return before
            after = replace(edited.record, updated_at=now)
            if not after.deleted and (after.order != before.order or before.deleted):
                _make_room(connection, after, tell, now)
            _update(connection, after)
            if edited.entry is not None:
                activity.record(connection, edited.entry, now)
            generations.advance(connection, _topic(place.project_id))
            return after

        return await self._database.write(change)

    async def rearrange(
        self,
        project_id: ProjectId,
        family: Family,
        plan: Callable[[Mapping[RecordId, int]], Mapping[RecordId, int]],
        tell: Tell,
        now: datetime,
    ) -> list[Record]:
        def change(connection: Connection) -> list[Record]:
            lock_project(connection, project_id)
            rows = connection.execute(
                select(table).where(_live(project_id, family)).order_by(table.c.order, table.c.id)
            )
            before = {record.id: record for record in map(record_from, rows)}
            places = plan({id: record.order for id, record in before.items()})
            for id, record in before.items():
                if places[id] != record.order:
                    moved = replace(record, order=places[id], updated_at=now)
                    _update(connection, moved)
                    activity.record(connection, tell(record, moved), now)
                    before[id] = moved
            generations.advance(connection, _topic(project_id))
            return sorted(before.values(), key=lambda record: (record.order, record.id))

        return await self._database.write(change)

    async def write_all(
        self,
        project_id: ProjectId,
        decide: Callable[[Sequence[Record]], Batch],
        created: Callable[[Record], Entry],
        now: datetime,
    ) -> None:
        def change(connection: Connection) -> None:
            lock_project(connection, project_id)
            batch = decide(_all(connection, project_id))
            for edited in batch.edited:
                _update(connection, replace(edited.record, updated_at=now))
                if edited.entry is not None:
                    activity.record(connection, edited.entry, now)
            for wanted in batch.added:
                record = _insert_values(connection, asdict(wanted), now)
                activity.record(connection, created(record), now)
            generations.advance(connection, _topic(project_id))

        await self._database.write(change)


def _topic(project_id: ProjectId) -> str:
    return f"{TOPIC}{project_id}"


def record_from(row: Row[Any]) -> Record:
    switches = tuple(row.switches or ())
    return Record(**{**row._mapping, "family": Family(row.family), "switches": switches})


def _all(connection: Connection, project_id: ProjectId) -> list[Record]:
    """Without those of a family that only another version knows."""
    rows = connection.execute(
        select(table)
        .where((table.c.project_id == project_id) & table.c.deleted.is_(False))
        .where(table.c.family.in_([family.value for family in Family]))
        .order_by(table.c.order, table.c.id)
    )
    return [record_from(row) for row in rows]


def _live(project_id: ProjectId, family: Family) -> ColumnElement[bool]:
    return (
        (table.c.project_id == project_id)
        & (table.c.family == family.value)
        & (table.c.deleted.is_(False))
    )


def _wanted(query: RecordQuery) -> ColumnElement[bool]:
    wanted = _live(query.project_id, query.family)
    if query.enabled is not None:
        wanted &= table.c.enabled.is_(query.enabled)
    if query.component_id is not None:
        wanted &= table.c.component_id == query.component_id
    if query.search:
        wanted &= or_(
            table.c.name.icontains(query.search, autoescape=True),
            table.c.description.icontains(query.search, autoescape=True),
            (table.c.name == "") & table.c.component_id.in_(query.named_alike),
            (table.c.description == "") & table.c.component_id.in_(query.described_alike),
        )
    return wanted


def _find(connection: Connection, place: Place) -> Record | None:
    row = connection.execute(
        select(table).where(
            (table.c.id == place.id)
            & (table.c.project_id == place.project_id)
            & (table.c.family == place.family.value)
        )
    ).one_or_none()
    return None if row is None else record_from(row)


def _made_with(connection: Connection, draft: RecordDraft, key: str) -> Record | None:
    used = idempotency_keys
    id = connection.execute(
        select(used.c.record_id).where(
            (used.c.project_id == draft.project_id)
            & (used.c.family == draft.family.value)
            & (used.c.key == key)
        )
    ).scalar()
    if id is None:
        return None
    return _find(
        connection, Place(project_id=draft.project_id, family=draft.family, id=RecordId(id))
    )


def _insert(connection: Connection, draft: RecordDraft, tell: Tell, now: datetime) -> Record:
    order = draft.order
    if order is None:
        last = select(func.max(table.c.order)).where(_live(draft.project_id, draft.family))
        order = (connection.execute(last).scalar() or 0) + 1
        if order > INT32_MAX:
            order = INT32_MAX
            _move(connection, draft, with_room_at_the_end, tell, now)
    values = asdict(draft) | {"order": order, "config": {}}
    record = _insert_values(connection, values, now)
    if draft.order is not None and not draft.deleted:
        _make_room(connection, record, tell, now)
    return record


def _insert_values(connection: Connection, values: Mapping[str, Any], now: datetime) -> Record:
    row = {key: value for key, value in values.items() if key != "id"}
    row |= {"family": values["family"].value, "created_at": now, "updated_at": now}
    row["switches"] = [_ms(now)] if values["enabled"] else []
    return record_from(connection.execute(insert(table).returning(table), row).one())


def _make_room(connection: Connection, newcomer: Record, tell: Tell, now: datetime) -> None:
    """Move up whoever stands where the newcomer goes, and those right behind, so that no two share
    a place."""

    def plan(current: Mapping[RecordId, int]) -> Mapping[RecordId, int]:
        others = {id: order for id, order in current.items() if id != newcomer.id}
        return with_room_at(others, newcomer.order)

    _move(connection, newcomer, plan, tell, now)


def _move(
    connection: Connection,
    among: Record | RecordDraft,
    plan: Callable[[Mapping[RecordId, int]], Mapping[RecordId, int]],
    tell: Tell,
    now: datetime,
) -> None:
    """Give some records of a family the new places that `plan` makes of the present ones."""
    live = _live(among.project_id, among.family)
    current = connection.execute(select(table.c.id, table.c.order).where(live)).all()
    places = plan({RecordId(row.id): row.order for row in current})
    if not places:
        return
    rows = connection.execute(select(table).where(table.c.id.in_(places)))
    for before in [record_from(row) for row in rows]:
        if not INT32_MIN <= places[before.id] <= INT32_MAX:
            raise too_large("order")
        moved = replace(before, order=places[before.id], updated_at=now)
        _update(connection, moved)
        activity.record(connection, tell(before, moved), now)


def _update(connection: Connection, record: Record) -> None:
    connection.execute(
        update(table)
        .where(table.c.id == record.id)
        .values(
            component_id=record.component_id,
            component_version=record.component_version,
            enabled=record.enabled,
            order=record.order,
            name=record.name,
            description=record.description,
            deleted=record.deleted,
            config=dict(record.config),
            updated_at=record.updated_at,
            switches=_switches(connection, record),
        )
    )


def _switches(connection: Connection, record: Record) -> list[int]:
    """When the record was enabled and disabled, with this change if it is one of these."""
    before = connection.execute(
        select(table.c.enabled, table.c.switches).where(table.c.id == record.id)
    ).one()
    switches = list(before.switches or ())
    if before.enabled != record.enabled:
        switches.append(_ms(record.updated_at))
    return switches[-SWITCHES_KEPT:]


def _ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)
