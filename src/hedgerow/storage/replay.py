"""What a replay reads: events of a span from the event store, and the queue that they go to."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Integer, Text, bindparam, func, literal_column, select

from hedgerow.events.model import Event, PersonMode
from hedgerow.events.reading import PLAIN
from hedgerow.lib.threads import in_daemon_thread
from hedgerow.pipelines.model import RecordId
from hedgerow.pipelines.replay_span import Place, Span
from hedgerow.projects.model import ProjectId
from hedgerow.storage import delivered
from hedgerow.storage.database import Database, HotRead
from hedgerow.storage.event_reading import EventQueries
from hedgerow.storage.events_schema import COLUMNS, TABLE
from hedgerow.storage.inbox import InboxRecords
from hedgerow.storage.tables import deliveries as table

_MOMENT = "DateTime64(6, 'UTC')"
_of = table.c.record_id == bindparam("of")
_waiting = (
    select(table.c.id)
    .where(_of & (table.c.status == literal_column("'waiting'", Text)))
    .limit(bindparam("most"))
    .offset(literal_column("0", Integer))
)
_length = HotRead(select(func.count()).select_from(_waiting.subquery()))
_queued = HotRead(
    select(table.c.uuid).where(
        _of
        & table.c.status.in_(
            [literal_column(f"'{each}'", Text) for each in ("waiting", "retrying")]
        )
        & (table.c.id <= bindparam("newest"))
    )
)


class StoredEvents:
    def __init__(self, queries: EventQueries, inbox: InboxRecords) -> None:
        self._queries = queries
        self._inbox = inbox

    async def wait_since(self) -> datetime | None:
        return await self._inbox.waits_since()

    async def count(self, project_id: ProjectId, span: Span) -> int:
        where, values = _where(project_id, span, None)
        sql = f"SELECT count() FROM {TABLE} WHERE {where}"  # noqa: S608 - names of ours
        answer = await self._queries.read(sql, values, PLAIN)
        return int(answer.rows[0][0])

    async def some(
        self, project_id: ProjectId, span: Span, after: Place | None, limit: int
    ) -> Sequence[Event]:
        where, values = _where(project_id, span, after)
        sql = (
            f"SELECT {', '.join(COLUMNS)} FROM {TABLE} WHERE {where}"  # noqa: S608 - names of ours
            " ORDER BY timestamp, uuid LIMIT {limit:UInt32}"
        )
        answer = await self._queries.read(sql, values | {"limit": limit}, PLAIN)
        return await in_daemon_thread(lambda: [_event(row) for row in answer.rows])


class ReplayQueues:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def newest(self, record_id: RecordId) -> int:
        newest = select(func.max(table.c.id)).where(table.c.record_id == record_id)
        return await self._database.read(
            lambda connection: connection.execute(newest).scalar() or 0
        )

    async def length(self, record_id: RecordId, at_most: int) -> int:
        rows = await self._database.fetch(_length, {"of": record_id, "most": at_most})
        return int(rows[0][0])

    async def queued(self, record_id: RecordId, newest: int) -> Sequence[str]:
        rows = await self._database.fetch(_queued, {"of": record_id, "newest": newest})
        return [uuid for (uuid,) in rows]

    async def delivered(self, record_id: RecordId, events: Sequence[Event]) -> set[str]:
        def run(connection: Connection) -> set[str]:
            return delivered.found(connection, record_id, events)

        return await self._database.read(run)


def _where(project_id: ProjectId, span: Span, place: Place | None) -> tuple[str, dict[str, Any]]:
    clauses = [
        "project_id = {project_id:Int64}",
        f"timestamp >= {{after:{_MOMENT}}}",
        f"timestamp < {{before:{_MOMENT}}}",
        f"created_at <= {{as_of:{_MOMENT}}}",
    ]
    values: dict[str, Any] = {
        "project_id": project_id,
        "after": _text(span.after if place is None else place.timestamp),
        "before": _text(span.before),
        "as_of": _text(span.as_of),
    }
    if span.names:
        clauses.append("event IN {names:Array(String)}")
        values["names"] = list(span.names)
    if place is not None:
        clauses.append(f"(timestamp > {{after:{_MOMENT}}} OR uuid > {{last:UUID}})")
        values["last"] = place.uuid
    return " AND ".join(clauses), values


def _text(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")


def _event(row: Sequence[Any]) -> Event:
    values = dict(zip(COLUMNS, row, strict=True))
    return Event(
        **{
            **values,
            "uuid": str(values["uuid"]),
            "timestamp": values["timestamp"].astimezone(UTC),
            "created_at": values["created_at"].astimezone(UTC),
            "person_id": str(values["person_id"]),
            "person_created_at": values["person_created_at"].astimezone(UTC),
            "person_mode": PersonMode(values["person_mode"]),
            "historical_migration": bool(values["historical_migration"]),
        }
    )
