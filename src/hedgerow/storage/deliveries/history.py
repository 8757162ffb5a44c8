"""Deliveries as the API shows them: lists, log lines, hourly counts."""

from datetime import datetime

from sqlalchemy import ColumnElement, Connection, Row, func, or_, select, update

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
from hedgerow.storage.deliveries.new_deliveries import unpack_event
from hedgerow.storage.deliveries.queue import end_pause
from hedgerow.storage.engine.database import Database
from hedgerow.storage.engine.paging import read_page
from hedgerow.storage.projects import activity
from hedgerow.storage.tables import deliveries, delivery_counts, delivery_logs


class SqlDeliveryHistory(DeliveryHistory):
    def __init__(self, database: Database) -> None:
        self._database = database

    async def deliveries(
        self, query: DeliveryQuery, *, limit: int, offset: int
    ) -> tuple[list[DeliveryView], int]:
        wanted = _build_condition(query)
        newest_first = select(deliveries).where(wanted).order_by(deliveries.c.id.desc())

        def run(connection: Connection) -> tuple[list[DeliveryView], int]:
            rows, total = read_page(connection, newest_first, limit=limit, offset=offset)
            return [_decode_delivery(row) for row in rows], total

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
        own = (deliveries.c.record_id == record_id) & (deliveries.c.id == id)
        # Like a new delivery: no attempts yet, and its maximum age starts now.
        again = (
            update(deliveries)
            .where(own)
            .values(
                status=DeliveryStatus.RETRYING.value,
                attempts=0,
                due_ms=0,
                created_ms=int(now.timestamp() * 1000),
            )
            .returning(deliveries)
        )

        def change(connection: Connection) -> DeliveryView | None:
            row = connection.execute(again).one_or_none()
            if row is None:
                return None
            end_pause(connection, record_id)
            activity.record(connection, entry, now)
            return _decode_delivery(row)

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


def _build_condition(query: DeliveryQuery) -> ColumnElement[bool]:
    table = deliveries
    wanted = table.c.record_id == query.record_id
    if query.statuses:
        wanted &= table.c.status.in_([status.value for status in query.statuses])
    if query.error:
        wanted &= table.c.error == query.error
    if query.search:
        wanted &= or_(
            table.c.error.icontains(query.search, autoescape=True),
            table.c.distinct_id.icontains(query.search, autoescape=True),
            table.c.uuid == query.search.lower(),
        )
    return wanted


def _decode_delivery(row: Row[tuple[object, ...]]) -> DeliveryView:
    return DeliveryView(
        id=row.id,
        uuid=row.uuid,
        distinct_id=row.distinct_id,
        event=unpack_event(row.event),
        status=DeliveryStatus(row.status),
        attempts=row.attempts,
        due_ms=row.due_ms,
        error=row.error,
        created_ms=row.created_ms,
    )
