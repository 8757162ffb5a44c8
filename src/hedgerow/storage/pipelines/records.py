"""Pipeline records: destinations, transformations, imports and site apps.

Changes to the records of one project are serialized.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, func, insert, or_, select, update

from hedgerow.errors import NotFound
from hedgerow.pipelines.model import INT32_MAX, Record, RecordDraft, RecordId
from hedgerow.pipelines.records.limits import EnabledLimits
from hedgerow.pipelines.records.ordering import free_last_position, free_position
from hedgerow.pipelines.store import (
    BuildEntry,
    DestinationStore,
    PublicRecordStore,
    RecordChanges,
    RecordEdit,
    RecordKey,
    RecordQuery,
    RecordStore,
    TransformationStore,
)
from hedgerow.plugin.component import Family
from hedgerow.projects.activity import ActivityEntry
from hedgerow.projects.model import ProjectId
from hedgerow.storage.engine import generations
from hedgerow.storage.engine.database import Database
from hedgerow.storage.engine.paging import read_page
from hedgerow.storage.projects import activity
from hedgerow.storage.projects.projects import lock_project
from hedgerow.storage.tables import destination_states, idempotency_keys
from hedgerow.storage.tables import pipeline_records as table

TOPIC = "records:"
# Enough to cover the acceptance times of all events that are still being processed.
MAX_SWITCHES = 20
# A clock that was set back is noticed within this time, also while the database is busy.
NOTICED_WITHIN_MS = 60_000
# Up to this many projects, fetch generations one by one.
SINGLE_LOOKUP_LIMIT = 4


class SqlRecordStore(RecordStore, PublicRecordStore, DestinationStore, TransformationStore):
    def __init__(self, database: Database, limits: EnabledLimits | None = None) -> None:
        self._database = database
        self._limits = limits or EnabledLimits()

    async def records(self, query: RecordQuery) -> tuple[list[Record], int]:
        wanted = _build_condition(query)

        def run(connection: Connection) -> tuple[list[Record], int]:
            in_order = select(table).where(wanted).order_by(table.c.order, table.c.id)
            rows, total = read_page(connection, in_order, limit=query.limit, offset=query.offset)
            return [decode_record(row) for row in rows], total

        return await self._database.read(run)

    async def all_records(self, project_id: ProjectId) -> list[Record]:
        return await self._database.read(lambda connection: _read_all(connection, project_id))

    async def generation(self, project_id: ProjectId) -> int:
        return await generations.fetch_generation(self._database, _topic(project_id))

    async def record(self, record_key: RecordKey) -> Record | None:
        return await self._database.read(lambda connection: _find(connection, record_key))

    async def public_record(self, id: RecordId, web_token: str) -> Record | None:
        """Find an enabled record by the token of its public script."""
        statement = select(table).where(
            (table.c.id == id)
            & (table.c.web_token == web_token)
            & table.c.enabled.is_(True)
            & table.c.deleted.is_(False)
        )

        def run(connection: Connection) -> Record | None:
            row = connection.execute(statement).one_or_none()
            return None if row is None else decode_record(row)

        return await self._database.read(run)

    async def public_apps(self, project_ids: Sequence[ProjectId]) -> list[Record]:
        return await self._read_enabled(Family.FRONTEND_APP, project_ids)

    async def transformations(self, project_ids: Sequence[ProjectId]) -> list[Record]:
        return await self._read_enabled(Family.TRANSFORMATION, project_ids)

    async def _read_enabled(self, family: Family, project_ids: Sequence[ProjectId]) -> list[Record]:
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
            lambda connection: [decode_record(row) for row in connection.execute(statement)]
        )

    async def destinations(self, project_ids: Sequence[ProjectId]) -> list[Record]:
        statement = select(table).where(
            table.c.project_id.in_(project_ids)
            & (table.c.family == Family.DESTINATION.value)
            & table.c.deleted.is_(False)
        )
        return await self._database.read(
            lambda connection: [decode_record(row) for row in connection.execute(statement)]
        )

    async def generations_of(self, project_ids: Collection[ProjectId]) -> Mapping[ProjectId, int]:
        """Return the generations of these projects, usually a single one."""
        if len(project_ids) > SINGLE_LOOKUP_LIMIT:
            numbers = await self.generations()
            return {id: numbers.get(id, 0) for id in project_ids}
        return {id: await self.generation(id) for id in project_ids}

    async def generations(self) -> Mapping[ProjectId, int]:
        return await generations.fetch_project_generations(self._database, TOPIC)

    async def add(
        self,
        draft: RecordDraft,
        build_entry: BuildEntry,
        idempotency_key: str | None,
        now: datetime,
    ) -> Record:
        def change(connection: Connection) -> Record:
            lock_project(connection, draft.project_id)
            if idempotency_key is not None:
                before = _find_by_idempotency_key(connection, draft, idempotency_key)
                if before is not None:
                    return before
            with self._check_limits(connection, draft.project_id):
                record = _insert(connection, draft, build_entry, now)
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
            activity.record(connection, build_entry(None, record), now)
            generations.advance(connection, _topic(draft.project_id))
            return record

        return await self._database.write(change)

    async def edit(
        self,
        record_key: RecordKey,
        edit: Callable[[Record], RecordEdit],
        build_entry: BuildEntry,
        now: datetime,
    ) -> Record:
        def change(connection: Connection) -> Record:
            lock_project(connection, record_key.project_id)
            before = _find(connection, record_key)
            if before is None:
                raise NotFound
            edited = edit(before)
            if edited.record.is_same_as(before):
                return before
            after = replace(edited.record, updated_at=now)
            if not after.deleted and (after.order != before.order or before.deleted):
                _shift_others(connection, after, build_entry, now)
            with self._check_limits(connection, record_key.project_id):
                _update(connection, after)
            if edited.entry is not None:
                activity.record(connection, edited.entry, now)
            generations.advance(connection, _topic(record_key.project_id))
            return after

        return await self._database.write(change)

    async def rearrange(
        self,
        project_id: ProjectId,
        family: Family,
        plan: Callable[[Mapping[RecordId, int]], Mapping[RecordId, int]],
        build_entry: BuildEntry,
        now: datetime,
    ) -> list[Record]:
        def change(connection: Connection) -> list[Record]:
            lock_project(connection, project_id)
            rows = connection.execute(
                select(table)
                .where(_is_live(project_id, family))
                .order_by(table.c.order, table.c.id)
            )
            before = {record.id: record for record in map(decode_record, rows)}
            places = plan({id: record.order for id, record in before.items()})
            for id, record in before.items():
                if places[id] != record.order:
                    moved = replace(record, order=places[id], updated_at=now)
                    _update(connection, moved)
                    activity.record(connection, build_entry(record, moved), now)
                    before[id] = moved
            generations.advance(connection, _topic(project_id))
            return sorted(before.values(), key=lambda record: (record.order, record.id))

        return await self._database.write(change)

    async def write_all(
        self,
        project_id: ProjectId,
        decide: Callable[[Sequence[Record]], RecordChanges],
        created: Callable[[Record], ActivityEntry],
        now: datetime,
    ) -> None:
        def change(connection: Connection) -> None:
            lock_project(connection, project_id)
            batch = decide(_read_all(connection, project_id))
            with self._check_limits(connection, project_id):
                for edited in batch.edited:
                    _update(connection, replace(edited.record, updated_at=now))
                    if edited.entry is not None:
                        activity.record(connection, edited.entry, now)
                for wanted in batch.added:
                    record = _insert_values(connection, asdict(wanted), now)
                    activity.record(connection, created(record), now)
            generations.advance(connection, _topic(project_id))

        await self._database.write(change)

    @contextmanager
    def _check_limits(self, connection: Connection, project_id: ProjectId) -> Iterator[None]:
        """Raise Invalid at the end if the changes enable too many records of the project, which
        must be locked."""
        before = _count_enabled(connection, project_id)
        yield
        self._limits.check(before, _count_enabled(connection, project_id))


def _count_enabled(connection: Connection, project_id: ProjectId) -> Mapping[Family, int]:
    families = (Family.DESTINATION, Family.TRANSFORMATION)
    counts = (
        select(table.c.family, func.count())
        .where(
            (table.c.project_id == project_id)
            & table.c.family.in_([family.value for family in families])
            & table.c.enabled.is_(True)
            & table.c.deleted.is_(False)
        )
        .group_by(table.c.family)
    )
    return {Family(family): number for family, number in connection.execute(counts)}


def _topic(project_id: ProjectId) -> str:
    return f"{TOPIC}{project_id}"


def decode_record(row: Row[Any]) -> Record:
    switches = tuple(row.switches or ())
    return Record(**{**row._mapping, "family": Family(row.family), "switches": switches})


def _read_all(connection: Connection, project_id: ProjectId) -> list[Record]:
    """Read all records, except those of an unknown family written by a newer version."""
    rows = connection.execute(
        select(table)
        .where((table.c.project_id == project_id) & table.c.deleted.is_(False))
        .where(table.c.family.in_([family.value for family in Family]))
        .order_by(table.c.order, table.c.id)
    )
    return [decode_record(row) for row in rows]


def _is_live(project_id: ProjectId, family: Family) -> ColumnElement[bool]:
    return (
        (table.c.project_id == project_id)
        & (table.c.family == family.value)
        & (table.c.deleted.is_(False))
    )


def _build_condition(query: RecordQuery) -> ColumnElement[bool]:
    wanted = _is_live(query.project_id, query.family)
    if query.enabled is not None:
        wanted &= table.c.enabled.is_(query.enabled)
    if query.component_id is not None:
        wanted &= table.c.component_id == query.component_id
    if query.search:
        wanted &= or_(
            table.c.name.icontains(query.search, autoescape=True),
            table.c.description.icontains(query.search, autoescape=True),
            (table.c.name == "") & table.c.component_id.in_(query.components_by_name),
            (table.c.description == "") & table.c.component_id.in_(query.components_by_description),
        )
    if query.failing is not None:
        failing = select(destination_states.c.record_id).where(destination_states.c.error != "")
        wanted &= table.c.id.in_(failing) if query.failing else table.c.id.not_in(failing)
    return wanted


def _find(connection: Connection, record_key: RecordKey) -> Record | None:
    row = connection.execute(
        select(table).where(
            (table.c.id == record_key.id)
            & (table.c.project_id == record_key.project_id)
            & (table.c.family == record_key.family.value)
        )
    ).one_or_none()
    return None if row is None else decode_record(row)


def _find_by_idempotency_key(connection: Connection, draft: RecordDraft, key: str) -> Record | None:
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
        connection, RecordKey(project_id=draft.project_id, family=draft.family, id=RecordId(id))
    )


def _insert(
    connection: Connection, draft: RecordDraft, build_entry: BuildEntry, now: datetime
) -> Record:
    order = draft.order
    if order is None:
        last = select(func.max(table.c.order)).where(_is_live(draft.project_id, draft.family))
        order = (connection.execute(last).scalar() or 0) + 1
        if order > INT32_MAX:
            order = INT32_MAX
            _reorder(connection, draft, free_last_position, build_entry, now)
    values = asdict(draft) | {"order": order, "config": {}}
    record = _insert_values(connection, values, now)
    if draft.order is not None and not draft.deleted:
        _shift_others(connection, record, build_entry, now)
    return record


def _insert_values(connection: Connection, values: Mapping[str, Any], now: datetime) -> Record:
    row = {key: value for key, value in values.items() if key != "id"}
    row |= {"family": values["family"].value, "created_at": now, "updated_at": now}
    row["switches"] = [_to_ms(now)] if values["enabled"] else []
    return decode_record(connection.execute(insert(table).returning(table), row).one())


def _shift_others(
    connection: Connection, newcomer: Record, build_entry: BuildEntry, now: datetime
) -> None:
    """Move up the records at and directly after the new record's order, so that it is unique."""

    def plan(current: Mapping[RecordId, int]) -> Mapping[RecordId, int]:
        others = {id: order for id, order in current.items() if id != newcomer.id}
        return free_position(others, newcomer.order)

    _reorder(connection, newcomer, plan, build_entry, now)


def _reorder(
    connection: Connection,
    among: Record | RecordDraft,
    plan: Callable[[Mapping[RecordId, int]], Mapping[RecordId, int]],
    build_entry: BuildEntry,
    now: datetime,
) -> None:
    """Update the order of the records of a family. `plan` maps the current order to changes."""
    live = _is_live(among.project_id, among.family)
    current = connection.execute(select(table.c.id, table.c.order).where(live)).all()
    places = plan({RecordId(row.id): row.order for row in current})
    if not places:
        return
    rows = connection.execute(select(table).where(table.c.id.in_(places)))
    for before in [decode_record(row) for row in rows]:
        moved = replace(before, order=places[before.id], updated_at=now)
        _update(connection, moved)
        activity.record(connection, build_entry(before, moved), now)


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
            switches=_append_switch(connection, record),
        )
    )


def _append_switch(connection: Connection, record: Record) -> list[int]:
    """Return when the record was enabled and disabled, including this change."""
    before = connection.execute(
        select(table.c.enabled, table.c.switches).where(table.c.id == record.id)
    ).one()
    switches = list(before.switches or ())
    if before.enabled != record.enabled:
        switches.append(_to_ms(record.updated_at))
    return switches[-MAX_SWITCHES:]


def find_newest_switch_ms(connection: Connection) -> int:
    """Return when a record was last enabled or disabled, 0 if none was."""
    rows = connection.execute(select(table.c.switches).where(table.c.switches.is_not(None)))
    return max((switch for row in rows for switch in row.switches or ()), default=0)


def date_back_switches(connection: Connection, now: datetime) -> None:
    """Move the switches that are in the future before the events that were accepted since the
    clock was set back: they happened earlier. Otherwise these events would miss a destination if
    they are routed after the clock is set forward again."""
    columns = select(table.c.id, table.c.project_id, table.c.switches)
    found = connection.execute(columns.where(table.c.switches.is_not(None))).all()
    late = {row.project_id for row in found if any(each > _to_ms(now) for each in row.switches)}
    for project_id in sorted(late):
        try:
            lock_project(connection, project_id)
        except NotFound:  # it is being deleted
            continue
        for row in connection.execute(columns.where(table.c.project_id == project_id)).all():
            switches = _date_back(row.switches or (), _to_ms(now))
            if switches != list(row.switches or ()):
                change = update(table).where(table.c.id == row.id).values(switches=switches)
                connection.execute(change)
        generations.advance(connection, _topic(project_id))


def _date_back(switches: Sequence[int], now_ms: int) -> list[int]:
    """Keep their order: those in the future come after all others."""
    past = [each for each in switches if each <= now_ms]
    moved = max(now_ms - NOTICED_WITHIN_MS, *past, 0)
    return [*past, *(moved for _ in switches[len(past) :])]


def _to_ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)
