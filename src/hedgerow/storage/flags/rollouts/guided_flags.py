"""What rollout plans and bandits have in common: rows that guide a flag, their history, and claims
of rows that are due."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Generic, Protocol, TypeVar

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Row,
    Table,
    delete,
    func,
    insert,
    literal_column,
    select,
    update,
)

from hedgerow.flags.model import Flag, FlagId
from hedgerow.flags.store import FlagWrite
from hedgerow.projects.model import ProjectId
from hedgerow.storage.engine import generations
from hedgerow.storage.engine.database import AnyRow, Database
from hedgerow.storage.engine.paging import read_page
from hedgerow.storage.engine.row_claims import is_free
from hedgerow.storage.flags.approvals.approval_gate import WriteGate
from hedgerow.storage.flags.flags import SqlFlagStore, flag_topic, store_flag
from hedgerow.storage.tables import flags

G = TypeVar("G")
E = TypeVar("E")
RUNNING = "running"
# No claim takes so long, and clocks of several processes differ by less.
MAX_AHEAD = timedelta(minutes=10)


class GuideFilter(Protocol):
    @property
    def flag_id(self) -> FlagId | None: ...
    @property
    def state(self) -> Any: ...
    @property
    def search(self) -> str: ...
    @property
    def limit(self) -> int: ...
    @property
    def offset(self) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class GuideTables(Generic[G, E]):
    """Where a kind of guide is stored, and how. `parent` is the column of `history` that names the
    guide. No guide rests for longer than `max_pause`."""

    table: Table
    history: Table
    parent: Column[Any]
    max_entries: int
    max_pause: timedelta
    active_states: Sequence[str]
    decode: Callable[[Row[Any]], G]
    encode: Callable[[G], dict[str, Any]]
    decode_entry: Callable[[Row[Any]], E]
    encode_entry: Callable[[E], dict[str, Any]]

    def find(self, connection: Connection, project_id: ProjectId, id: int) -> G | None:
        own = (self.table.c.project_id == project_id) & (self.table.c.id == id)
        row = connection.execute(select(self.table).where(own)).one_or_none()
        return None if row is None else self.decode(row)

    def list_active(self, connection: Connection, project_id: ProjectId) -> dict[Any, FlagId]:
        """Return the flags of the running and paused ones, by the id of the guide."""
        table = self.table
        own = (table.c.project_id == project_id) & table.c.state.in_(self.active_states)
        rows = connection.execute(select(table.c.id, table.c.flag_id).where(own))
        return {row.id: row.flag_id for row in rows}

    def count(self, connection: Connection, project_id: ProjectId) -> int:
        own = self.table.c.project_id == project_id
        number = select(func.count()).select_from(self.table).where(own)
        return int(connection.execute(number).scalar_one())

    def store(
        self, connection: Connection, guide: Any, entry: E | None, *, is_deleted: bool
    ) -> Any:
        """Store a guide, or delete it with its history. A new one gets its id."""
        if is_deleted:
            connection.execute(delete(self.history).where(self.parent == guide.id))
            connection.execute(delete(self.table).where(self.table.c.id == guide.id))
        else:
            guide = self._write_row(connection, guide)
        if entry is not None:
            self.add_entry(connection, guide.id, entry)
        return guide

    def _write_row(self, connection: Connection, guide: Any) -> Any:
        values = self.encode(guide) | {"claimed_until": None}
        del values["id"]
        if guide.id:
            own = self.table.c.id == guide.id
            connection.execute(update(self.table).where(own).values(values))
            return guide
        made = insert(self.table).returning(self.table.c.id)
        return replace(guide, id=connection.execute(made, values).scalar_one())

    def add_entry(self, connection: Connection, id: int, entry: E) -> None:
        """Add an entry to the history and delete the oldest ones."""
        values = {**self.encode_entry(entry), self.parent.name: id}
        connection.execute(insert(self.history), values)
        own: ColumnElement[bool] = self.parent == id
        newest = select(self.history.c.id).where(own).order_by(self.history.c.id.desc())
        last = newest.offset(self.max_entries).limit(1).scalar_subquery()
        connection.execute(delete(self.history).where(own & (self.history.c.id <= last)))

    def save_check(self, connection: Connection, guide: Any, values: Mapping[str, Any]) -> bool:
        """Store a look and end the claim, unless the guide has changed since."""
        own = (self.table.c.id == guide.id) & (self.table.c.version == guide.version)
        changed = update(self.table).where(own).values({**values, "claimed_until": None})
        return bool(connection.execute(changed).rowcount)


class SqlGuideStore(Generic[G, E]):
    def __init__(self, database: Database, flags: SqlFlagStore, tables: GuideTables[G, E]) -> None:
        self._database = database
        self._flags = flags
        self._tables = tables
        self._any_running = AnyRow(tables.table.c.state == literal_column(f"'{RUNNING}'"))

    async def flag(self, project_id: ProjectId, id: FlagId) -> Flag | None:
        return await self._flags.flag(project_id, id)

    async def flag_keys(
        self, project_id: ProjectId, ids: Collection[FlagId]
    ) -> Mapping[FlagId, str]:
        own = (flags.c.project_id == project_id) & flags.c.id.in_(ids)
        keys = select(flags.c.id, flags.c.key).where(own)
        return await self._database.read(
            lambda connection: {row.id: row.key for row in connection.execute(keys)}
        )

    async def _list(self, project_id: ProjectId, wanted: GuideFilter) -> tuple[Sequence[G], int]:
        table = self._tables.table
        own = table.c.project_id == project_id
        if wanted.flag_id is not None:
            own &= table.c.flag_id == wanted.flag_id
        if wanted.state is not None:
            own &= table.c.state == wanted.state.value
        if wanted.search:
            text = wanted.search.lower()
            has_key = func.lower(flags.c.key).contains(text, autoescape=True)
            named = select(flags.c.id).where((flags.c.project_id == project_id) & has_key)
            has_name = func.lower(table.c.name).contains(text, autoescape=True)
            own &= has_name | table.c.flag_id.in_(named)
        page = select(table).where(own).order_by(table.c.id.desc())

        def read(connection: Connection) -> tuple[Sequence[G], int]:
            rows, total = read_page(connection, page, limit=wanted.limit, offset=wanted.offset)
            return [self._tables.decode(row) for row in rows], total

        return await self._database.read(read)

    async def _find(self, project_id: ProjectId, id: int) -> G | None:
        return await self._database.read(
            lambda connection: self._tables.find(connection, project_id, id)
        )

    async def _list_entries(self, id: int, limit: int, offset: int) -> tuple[Sequence[E], int]:
        history, parent = self._tables.history, self._tables.parent
        page = select(history).where(parent == id).order_by(history.c.id.desc())

        def read(connection: Connection) -> tuple[Sequence[E], int]:
            rows, total = read_page(connection, page, limit=limit, offset=offset)
            return [self._tables.decode_entry(row) for row in rows], total

        return await self._database.read(read)

    async def list_due_projects(self, now: datetime) -> Sequence[ProjectId]:
        if not await self._any_running.is_in(self._database):
            return ()
        due = select(self._tables.table.c.project_id).where(self._is_due(now)).distinct()
        return await self._database.read(
            lambda connection: [ProjectId(id) for id in connection.execute(due).scalars()]
        )

    async def claim_due(self, project_id: ProjectId, now: datetime, until: datetime) -> G | None:
        table = self._tables.table
        due = self._is_due(now) & (table.c.project_id == project_id)
        first = select(table.c.id).where(due).order_by(table.c.next_check_at).limit(1)
        # A process that waited for another's claim finds that the row is no longer free.
        claim = (
            update(table)
            .where(due & table.c.id.in_(first.scalar_subquery()))
            .values(claimed_until=until)
            .returning(table)
        )

        def change(connection: Connection) -> G | None:
            row = connection.execute(claim).one_or_none()
            return None if row is None else self._tables.decode(row)

        if not await self._database.read(lambda connection: connection.execute(first).first()):
            return None
        return await self._database.write(change)

    def _is_due(self, now: datetime) -> ColumnElement[bool]:
        table = self._tables.table
        # What is too far ahead was written before the clock was set back.
        ahead = now + MAX_AHEAD
        looked_at = func.coalesce(table.c.last_checked_at, table.c.started_at)
        is_time = (
            (table.c.next_check_at <= now)
            | (table.c.next_check_at > now + self._tables.max_pause)
            | (looked_at > ahead)
        )
        return is_time & (table.c.state == RUNNING) & is_free(table.c.claimed_until, now, ahead)


def write_guided_flag(
    connection: Connection, write: FlagWrite | None, now: datetime, gate: WriteGate
) -> None:
    """Raises ApprovalRequired if the write lacks approvals."""
    if write is None:
        return
    flag, is_audited = store_flag(connection, write, now, gate)
    if is_audited:
        generations.advance(connection, flag_topic(flag.project_id))
