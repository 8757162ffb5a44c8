"""Data that a replay reads: events of a time range, and the delivery queue that they go to."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Integer, bindparam, func, literal_column, select

from hedgerow.events.model import Event, PersonMode
from hedgerow.events.query.executor import DEFAULT_LIMITS
from hedgerow.events.store import EventReader
from hedgerow.lib.threads import run_in_thread
from hedgerow.pipelines.jobs.replay import EventPosition, ReplayQueue, ReplayRange, ReplaySource
from hedgerow.pipelines.model import RecordId
from hedgerow.projects.model import ProjectId
from hedgerow.storage.deliveries import delivered
from hedgerow.storage.deliveries.batches import build_waiting_select
from hedgerow.storage.deliveries.queue import end_pause
from hedgerow.storage.engine.database import Database, PreparedQuery
from hedgerow.storage.events.schema import COLUMNS, TABLE
from hedgerow.storage.ingestion.inbox import SqlInboxStore
from hedgerow.storage.tables import deliveries, delivery_events
from hedgerow.storage.tables import delivery_batches as batches

_MOMENT = "DateTime64(6, 'UTC')"
_select_numbers = (
    select(batches.c.number)
    .where(batches.c.record_id == bindparam("record_id"))
    .limit(bindparam("limit"))
    .offset(literal_column("0", Integer))
)
_count_waiting = PreparedQuery(select(func.sum(_select_numbers.subquery().c.number)))


class ClickHouseReplayEvents(ReplaySource):
    def __init__(self, queries: EventReader, inbox: SqlInboxStore) -> None:
        self._queries = queries
        self._inbox = inbox

    async def wait_since(self) -> datetime | None:
        return await self._inbox.oldest_accepted_at()

    async def count(self, project_id: ProjectId, span: ReplayRange) -> int:
        where, values = _build_condition(project_id, span, None)
        sql = f"SELECT count() FROM {TABLE} WHERE {where}"  # noqa: S608 - our own names
        answer = await self._queries.read(sql, values, DEFAULT_LIMITS)
        return int(answer.rows[0][0])

    async def read_page(
        self, project_id: ProjectId, span: ReplayRange, after: EventPosition | None, limit: int
    ) -> Sequence[Event]:
        where, values = _build_condition(project_id, span, after)
        sql = (
            f"SELECT {', '.join(COLUMNS)} FROM {TABLE} WHERE {where}"  # noqa: S608 - our own names
            " ORDER BY timestamp, uuid LIMIT {limit:UInt32}"
        )
        answer = await self._queries.read(sql, values | {"limit": limit}, DEFAULT_LIMITS)
        return await run_in_thread(lambda: [_decode_event(row) for row in answer.rows])


class SqlReplayQueue(ReplayQueue):
    def __init__(self, database: Database) -> None:
        self._database = database

    async def end_pause(self, record_id: RecordId) -> None:
        await self._database.write(lambda connection: end_pause(connection, record_id))

    async def newest(self) -> int:
        newest = select(func.max(delivery_events.c.id))
        return await self._database.read(
            lambda connection: connection.execute(newest).scalar() or 0
        )

    async def length(self, record_id: RecordId, at_most: int) -> int:
        rows = await self._database.fetch(
            _count_waiting, {"record_id": record_id, "limit": at_most}
        )
        return min(int(rows[0][0] or 0), at_most)

    async def queued(self, record_id: RecordId, newest: int) -> Sequence[str]:
        retried = select(deliveries.c.uuid).where(
            (deliveries.c.record_id == record_id)
            & (deliveries.c.status == "retrying")
            & (deliveries.c.event_id <= newest)
        )
        event = delivery_events

        def run(connection: Connection) -> Sequence[str]:
            waiting = build_waiting_select(connection, record_id)
            id = waiting.selected_columns.event_id
            of_batches = waiting.join(event, event.c.id == id).where(id <= newest)
            rows = connection.execute(of_batches.with_only_columns(event.c.uuid))
            return [*rows.scalars(), *connection.execute(retried).scalars()]

        return await self._database.read(run)

    async def delivered(self, record_id: RecordId, events: Sequence[Event]) -> set[str]:
        def run(connection: Connection) -> set[str]:
            return delivered.find_delivered(connection, record_id, events)

        return await self._database.read(run)


def _build_condition(
    project_id: ProjectId, span: ReplayRange, position: EventPosition | None
) -> tuple[str, dict[str, Any]]:
    clauses = [
        "project_id = {project_id:Int64}",
        f"timestamp >= {{after:{_MOMENT}}}",
        f"timestamp < {{before:{_MOMENT}}}",
        f"created_at <= {{as_of:{_MOMENT}}}",
    ]
    values: dict[str, Any] = {
        "project_id": project_id,
        "after": _format_moment(span.after if position is None else position.timestamp),
        "before": _format_moment(span.before),
        "as_of": _format_moment(span.as_of),
    }
    if span.names:
        clauses.append("event IN {names:Array(String)}")
        values["names"] = list(span.names)
    if position is not None:
        clauses.append(f"(timestamp > {{after:{_MOMENT}}} OR uuid > {{last:UUID}})")
        values["last"] = position.uuid
    return " AND ".join(clauses), values


def _format_moment(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")


def _decode_event(row: Sequence[Any]) -> Event:
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
