"""Deliveries as the API shows them: lists, log lines, hourly counts."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    Table,
    func,
    or_,
    select,
    union_all,
    update,
)

from hedgerow.pipelines.deliveries.model import (
    DeliveryHour,
    DeliveryStatus,
    DeliveryView,
    LogLevel,
    LogLine,
    StoredLogLine,
)
from hedgerow.pipelines.model import RecordId
from hedgerow.pipelines.store import DeliveryHistory, DeliveryQuery, DeliveryReason
from hedgerow.projects.activity import ActivityEntry
from hedgerow.storage.deliveries.batches import (
    build_waiting_select,
    find_segments,
    remove_events,
)
from hedgerow.storage.deliveries.new_deliveries import unpack_event
from hedgerow.storage.deliveries.outcomes import add_failed
from hedgerow.storage.deliveries.queue import end_pause
from hedgerow.storage.engine.database import Database
from hedgerow.storage.engine.paging import read_page
from hedgerow.storage.projects import activity
from hedgerow.storage.tables import deliveries, delivery_counts, delivery_events, delivery_logs

# What `build_waiting_select` returns, too.
VIEW_COLUMNS = [
    deliveries.c[name]
    for name in ("event_id", "status", "attempts", "due_ms", "error", "created_ms")
]
WAITING_AGAIN = (DeliveryStatus.RETRYING.value, 0, 0, "")


class SqlDeliveryHistory(DeliveryHistory):
    def __init__(self, database: Database) -> None:
        self._database = database

    async def deliveries(
        self, query: DeliveryQuery, *, limit: int, offset: int
    ) -> tuple[list[DeliveryView], int]:
        def run(connection: Connection) -> tuple[list[DeliveryView], int]:
            listed = _list_deliveries(connection, query)
            newest_first = listed.order_by(listed.selected_columns.event_id.desc())
            rows, total = read_page(connection, newest_first, limit=limit, offset=offset)
            return _load_views(connection, rows), total

        # Counting a million rows is slow.
        return await self._database.read_in_background(run)

    async def reasons(self, query: DeliveryQuery, limit: int) -> list[DeliveryReason]:
        table, count = deliveries, func.count()
        statement = (
            select(table.c.error, count, func.max(table.c.created_ms))
            .where(_build_condition(query) & (table.c.error != ""))
            .group_by(table.c.error)
            .order_by(count.desc(), table.c.error)
            .limit(limit)
        )

        def run(connection: Connection) -> list[DeliveryReason]:
            return [
                DeliveryReason(error=error, count=number, newest_ms=newest_ms)
                for error, number, newest_ms in connection.execute(statement)
            ]

        return await self._database.read_in_background(run)

    async def retry_now(
        self, record_id: RecordId, id: int, entry: ActivityEntry, now: datetime
    ) -> DeliveryView | None:
        now_ms = int(now.timestamp() * 1000)
        # Like a new delivery: no attempts yet, and its maximum age starts now.
        again = (
            update(deliveries)
            .where((deliveries.c.record_id == record_id) & (deliveries.c.event_id == id))
            .values(status=DeliveryStatus.RETRYING.value, attempts=0, due_ms=0, created_ms=now_ms)
            .returning(*VIEW_COLUMNS)
        )

        def change(connection: Connection) -> DeliveryView | None:
            row = connection.execute(again).one_or_none()
            if row is None:
                segments = find_segments(connection, [id])
                removed = remove_events(connection, [id], segments, record_id)
                add_failed(connection, record_id, {id: WAITING_AGAIN}, removed.created_ms)
                row = connection.execute(again).one_or_none()
            if row is None:
                return None
            end_pause(connection, record_id)
            activity.record(connection, entry, now)
            (view,) = _load_views(connection, [row])
            return view

        return await self._database.write(change)

    async def logs(
        self, record_id: RecordId, level: LogLevel | None, search: str, *, limit: int, offset: int
    ) -> tuple[list[StoredLogLine], int]:
        wanted = delivery_logs.c.record_id == record_id
        if level is not None:
            wanted &= delivery_logs.c.level == level.value
        if search:
            wanted &= or_(
                delivery_logs.c.message.icontains(search, autoescape=True),
                delivery_logs.c.uuid == search,
            )
        newest_first = select(delivery_logs).where(wanted).order_by(delivery_logs.c.id.desc())

        def run(connection: Connection) -> tuple[list[StoredLogLine], int]:
            rows, total = read_page(connection, newest_first, limit=limit, offset=offset)
            lines = [
                StoredLogLine(
                    id=row.id,
                    line=LogLine(level=LogLevel(row.level), message=row.message, uuid=row.uuid),
                    created_at=row.created_at,
                )
                for row in rows
            ]
            return lines, total

        return await self._database.read(run)

    async def hours(self, record_id: RecordId, since_ms: int) -> list[DeliveryHour]:
        table = delivery_counts
        statement = (
            select(table)
            .where((table.c.record_id == record_id) & (table.c.hour_ms > since_ms))
            .order_by(table.c.hour_ms)
        )

        def run(connection: Connection) -> list[DeliveryHour]:
            return [
                DeliveryHour(
                    hour_ms=row.hour_ms,
                    delivered=row.delivered,
                    retried=row.retried,
                    dead=row.dead,
                    latencies=row.latencies,
                )
                for row in connection.execute(statement)
            ]

        return await self._database.read(run)


def _list_deliveries(connection: Connection, query: DeliveryQuery) -> Select[Any]:
    """Build a SELECT of the deliveries that match. Waiting ones have no error."""
    failed = select(*VIEW_COLUMNS).where(_build_condition(query))
    if query.error or (query.statuses and DeliveryStatus.WAITING not in query.statuses):
        return failed
    waiting = build_waiting_select(connection, query.record_id)
    if query.search:
        event = delivery_events
        is_of_batch = event.c.id == waiting.selected_columns.event_id
        waiting = waiting.join(event, is_of_batch).where(_build_search(event, query.search))
    if query.statuses == [DeliveryStatus.WAITING]:
        return waiting
    return select(union_all(waiting, failed).subquery("listed"))


def _build_condition(query: DeliveryQuery) -> ColumnElement[bool]:
    table = deliveries
    wanted = table.c.record_id == query.record_id
    if query.statuses:
        wanted &= table.c.status.in_([status.value for status in query.statuses])
    if query.error:
        wanted &= table.c.error == query.error
    if query.search:
        has_error = table.c.error.icontains(query.search, autoescape=True)
        wanted &= or_(has_error, _build_search(table, query.search))
    return wanted


def _build_search(table: Table, search: str) -> ColumnElement[bool]:
    return or_(
        table.c.distinct_id.icontains(search, autoescape=True), table.c.uuid == search.lower()
    )


def _load_views(connection: Connection, rows: Sequence[Row[Any]]) -> list[DeliveryView]:
    """Load the events of deliveries."""
    event = delivery_events
    wanted = select(event).where(event.c.id.in_([row.event_id for row in rows]))
    events = {found.id: found for found in connection.execute(wanted)}
    return [
        DeliveryView(
            id=row.event_id,
            uuid=found.uuid,
            distinct_id=found.distinct_id,
            event=unpack_event(found.event),
            status=DeliveryStatus(row.status),
            attempts=row.attempts,
            due_ms=row.due_ms,
            error=row.error,
            created_ms=row.created_ms,
        )
        for row in rows
        if (found := events.get(row.event_id)) is not None
    ]
