"""Dead letters: events that could not be processed or stored. They are kept unchanged until an
operator retries or discards them.
"""

from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

from sqlalchemy import ColumnElement, Connection, delete, func, insert, literal, or_, select

from hedgerow.events.deletion import EventCopies
from hedgerow.events.model import Event
from hedgerow.ingestion.model import (
    CapturedEvent,
    InboxRow,
    IngestionWarning,
    ProcessedRow,
    QueueRow,
)
from hedgerow.ingestion.store import (
    UNKNOWN_PROJECT,
    DeadLetter,
    DeadLetterChoice,
    DeadLetterQuery,
    HandledEvents,
    ProjectDeadLetterStore,
)
from hedgerow.lib.text import replace_unstorable_characters
from hedgerow.projects.activity import ActivityEntry
from hedgerow.projects.model import ProjectId
from hedgerow.storage.engine import bulk
from hedgerow.storage.engine.database import Database
from hedgerow.storage.engine.paging import read_page
from hedgerow.storage.ingestion import ingestion_warnings
from hedgerow.storage.ingestion.inbox_packing import (
    DECODE_ERRORS,
    pack_single_row,
    pack_text,
    unpack_untyped,
)
from hedgerow.storage.projects import activity
from hedgerow.storage.tables.ingestion import inbox, ready_events
from hedgerow.storage.tables.ingestion import set_aside_events as table

WARNING_TYPE = "event_set_aside"
# How many rows one statement names.
BATCH_SIZE = 500
# The limit of the column. A project id read from damaged bytes may be out of range.
MAX_ID = 2**63

# The value of the column `stage` for the stage "process". Existing databases hold it.
STORED_PROCESS_STAGE = "settle"


# What a list shows; the events can be large.
LISTED_COLUMNS = [column for column in table.c if column.name not in ("events", "bucket")]


class SqlDeadLetterStore(EventCopies, ProjectDeadLetterStore):
    def __init__(self, database: Database) -> None:
        self._database = database

    async def list_oldest(self, limit: int) -> tuple[list[DeadLetter], int]:
        oldest = select(*LISTED_COLUMNS).order_by(table.c.id).limit(limit)

        def run(connection: Connection) -> tuple[list[DeadLetter], int]:
            found = [_decode_dead_letter(row) for row in connection.execute(oldest)]
            return found, count_events(connection)

        return await self._database.read(run)

    async def list_of_project(self, query: DeadLetterQuery) -> tuple[list[DeadLetter], int]:
        wanted = table.c.project_id == query.project_id
        if query.search:
            names = ("reason", "event", "distinct_id")
            wanted &= or_(
                *(table.c[name].icontains(query.search, autoescape=True) for name in names),
                table.c.uuid == query.search.lower(),
            )
        newest_first = select(*LISTED_COLUMNS).where(wanted).order_by(table.c.id.desc())

        def run(connection: Connection) -> tuple[list[DeadLetter], int]:
            rows, total = read_page(
                connection, newest_first, limit=query.limit, offset=query.offset
            )
            return [_decode_dead_letter(row) for row in rows], total

        return await self._database.read(run)

    async def find(self, project_id: ProjectId, id: int) -> tuple[DeadLetter, Any] | None:
        statement = select(*LISTED_COLUMNS, table.c.events.label("content")).where(
            _has_id([id]) & (table.c.project_id == project_id)
        )

        def run(connection: Connection) -> tuple[DeadLetter, Any] | None:
            row = connection.execute(statement).one_or_none()
            return None if row is None else (_decode_dead_letter(row), decode_content(row.content))

        return await self._database.read(run)

    async def retry_of_project(
        self, choice: DeadLetterChoice, limit: int, entry: ActivityEntry, now: datetime
    ) -> HandledEvents:
        return await self._handle(choice, limit, entry, now, partial(_requeue, now=now))

    async def discard_of_project(
        self, choice: DeadLetterChoice, limit: int, entry: ActivityEntry, now: datetime
    ) -> HandledEvents:
        return await self._handle(
            choice, limit, entry, now, lambda connection, ids: _remove(connection, _has_id(ids))
        )

    async def _handle(
        self,
        choice: DeadLetterChoice,
        limit: int,
        entry: ActivityEntry,
        now: datetime,
        handle: Callable[[Connection, Sequence[int]], int],
    ) -> HandledEvents:
        wanted = table.c.project_id == choice.project_id
        if choice.id is not None:
            wanted &= _has_id([choice.id])
        if choice.until is not None:
            wanted &= table.c.id <= choice.until

        def change(connection: Connection) -> HandledEvents:
            oldest = select(table.c.id).where(wanted).order_by(table.c.id).limit(limit)
            ids = connection.execute(oldest.with_for_update()).scalars().all()
            events = sum(
                handle(connection, ids[start : start + BATCH_SIZE])
                for start in range(0, len(ids), BATCH_SIZE)
            )
            if ids:
                detail = {"events": events}
                activity.record(connection, replace(entry, detail=detail), now)
            left = select(func.count()).select_from(table).where(wanted)
            return HandledEvents(events=events, left=connection.execute(left).scalar_one())

        return await self._database.write(change)

    async def get_content(self, id: int) -> bytes | None:
        query = select(table.c.events).where(table.c.id == id)
        return await self._database.read(
            lambda connection: connection.execute(query).scalar_one_or_none()
        )

    async def retry(self, ids: Sequence[int] | None, now: datetime) -> int:
        """Move dead letters back to the table that they came from.

        They do not count towards the read barrier: that was released when they failed.
        """

        def change(connection: Connection) -> int:
            # Locked, so that exactly the requeued rows are deleted, whatever others add.
            wanted = select(table.c.id).order_by(table.c.id).with_for_update()
            if ids is not None:
                wanted = wanted.where(table.c.id.in_(ids))
            locked_ids = connection.execute(wanted).scalars().all()
            return sum(
                _requeue(connection, locked_ids[start : start + BATCH_SIZE], now)
                for start in range(0, len(locked_ids), BATCH_SIZE)
            )

        return await self._database.write(change)

    async def newest(self) -> int:
        """Return the highest id, 0 if there are no dead letters."""
        query = select(func.max(table.c.id))
        return await self._database.read(lambda connection: connection.execute(query).scalar() or 0)

    async def discard(self, ids: Sequence[int]) -> int:
        return await self._database.write(lambda connection: _remove(connection, _has_id(ids)))

    async def discard_until(self, newest: int) -> int:
        """Discard all dead letters up to this id: none that arrived after the decision."""
        older = table.c.id <= newest
        return await self._database.write(lambda connection: _remove(connection, older))

    async def delete_copies(
        self, project_id: ProjectId, uuids: Sequence[str], distinct_ids: Sequence[str]
    ) -> int:
        """Delete dead letters that match. If both lists are given, both must match. A row that
        cannot be decoded matches if one of the texts is in its bytes, unless it may have events of
        other projects."""
        condition, values = bulk.build_event_condition(uuids, distinct_ids)
        if not condition:
            return 0
        sql = f"DELETE FROM set_aside_events WHERE project_id = ? AND {condition}"  # noqa: S608 - our own names
        texts = [pack_text(text) for text in uuids or distinct_ids]

        def change(connection: Connection) -> int:
            damaged = _find_damaged(connection, project_id, texts)
            _remove(connection, _has_id(damaged))
            return bulk.execute(connection, sql, project_id, *values) + len(damaged)

        return await self._database.write(change)


def _find_damaged(
    connection: Connection, project_id: ProjectId, texts: Sequence[tuple[bytes, bytes]]
) -> list[int]:
    is_unknown = (table.c.uuid == "") & (table.c.distinct_id == "")
    is_own = table.c.project_id == project_id
    rows = connection.execute(select(table.c.id, table.c.events).where(is_unknown & is_own))
    return [row.id for row in rows if any(form in row.events for forms in texts for form in forms)]


def decode_content(content: bytes) -> Any:
    """Return the events of a dead letter as JSON values, or its bytes if they are damaged."""
    try:
        return unpack_untyped(content)
    except DECODE_ERRORS:
        return {"base64": b64encode(content).decode()}


def _decode_dead_letter(row: Any) -> DeadLetter:
    fields = row._asdict()
    fields.pop("content", None)
    stage = "process" if fields["stage"] == STORED_PROCESS_STAGE else fields["stage"]
    dead_lettered_at = fields.pop("set_aside_at")
    return DeadLetter(**fields | {"stage": stage}, dead_lettered_at=dead_lettered_at)


def count_events(connection: Connection) -> int:
    """Return the number of dead-lettered events."""
    return connection.execute(select(func.sum(table.c.number))).scalar() or 0


def add_inbox_row(
    connection: Connection,
    bucket: int,
    row: InboxRow,
    reason: str,
    now: datetime,
    packed: bytes | None = None,
) -> None:
    """Add events that cannot be processed. `packed` are those of a row that cannot be decoded and
    is not in the database."""
    fields = {"stage": STORED_PROCESS_STAGE, "bucket": bucket, "project_id": row.project_id}
    row_values = _describe_first(row.events) | fields | {"reason": reason, "set_aside_at": now}
    if packed is not None:
        values = row_values | {"events": packed, "number": max(1, row.number)}
        connection.execute(insert(table), values)
    elif row.problem:
        _copy_bytes(connection, inbox, row, row_values)
    else:
        connection.execute(insert(table), row_values | _pack(row.events))
    warning = IngestionWarning(
        type=WARNING_TYPE,
        detail=f"The event could not be processed and is now a dead letter: {reason}",
        event=row_values["event"],
        uuid=row_values["uuid"],
        distinct_id=row_values["distinct_id"],
    )
    ingestion_warnings.add_warnings(connection, row.project_id, [warning], now)


def add_ready_row(
    connection: Connection, bucket: int, row: ProcessedRow, reason: str, now: datetime
) -> None:
    fields = {"stage": "store", "bucket": bucket, "reason": reason, "set_aside_at": now}
    project_id = row.project_id
    if project_id == UNKNOWN_PROJECT and row.events:
        project_id = row.events[0].project_id
    known = project_id if 0 < project_id < MAX_ID else None
    row_values = _describe_first(row.events) | fields | {"project_id": known}
    if row.problem:
        _copy_bytes(connection, ready_events, row, row_values)
    else:
        connection.execute(insert(table), row_values | _pack(row.events))


def _describe_first(events: Sequence[CapturedEvent] | Sequence[Event]) -> dict[str, Any]:
    first = events[0] if events else None
    return {
        name: replace_unstorable_characters(getattr(first, name, ""))
        for name in ("uuid", "event", "distinct_id")
    }


def _pack(events: Sequence[CapturedEvent] | Sequence[Event]) -> dict[str, Any]:
    return {"events": pack_single_row(events), "number": len(events)}


def _copy_bytes(
    connection: Connection, source: Any, row: QueueRow[Any], row_values: Mapping[str, Any]
) -> None:
    """Copy the bytes of a row that cannot be decoded, inside the database."""
    values = [*(literal(value, table.c[name].type) for name, value in row_values.items())]
    copied = select(*values, source.c.events, literal(max(1, row.number)))
    names = [*row_values, "events", "number"]
    connection.execute(insert(table).from_select(names, copied.where(source.c.id == row.id)))


def _requeue(connection: Connection, ids: Sequence[int], now: datetime) -> int:
    now_ms = literal(int(now.timestamp() * 1000))
    common = (table.c.bucket, table.c.events, literal(0), now_ms)
    selected = _has_id(ids)
    unprocessed = select(table.c.project_id, *common).where(
        selected, table.c.stage == STORED_PROCESS_STAGE
    )
    project_id = func.coalesce(table.c.project_id, UNKNOWN_PROJECT)
    unstored = select(project_id, *common).where(selected, table.c.stage == "store")
    names = ["project_id", "bucket", "events", "number", "accepted_ms"]
    connection.execute(insert(inbox).from_select(names, unprocessed.order_by(table.c.id)))
    connection.execute(insert(ready_events).from_select(names, unstored.order_by(table.c.id)))
    return _remove(connection, selected)


def _has_id(ids: Sequence[int]) -> ColumnElement[bool]:
    return table.c.id.in_(ids)


def _remove(connection: Connection, chosen: ColumnElement[bool]) -> int:
    gone = delete(table).where(chosen)
    return sum(connection.execute(gone.returning(table.c.number)).scalars())
