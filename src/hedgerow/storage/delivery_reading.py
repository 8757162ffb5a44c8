"""What people are shown of deliveries: lists, log lines, counts by the hour."""

from datetime import datetime

from sqlalchemy import Connection, Row, func, select, update

from hedgerow.pipelines.deliveries import (
    DeliveryStatus,
    Hour,
    LogLevel,
    LogLine,
    ToldDelivery,
    ToldLine,
)
from hedgerow.pipelines.model import RecordId
from hedgerow.projects.activity import Entry
from hedgerow.storage import activity
from hedgerow.storage.database import Database
from hedgerow.storage.packed_deliveries import unpacked_event
from hedgerow.storage.tables import deliveries, delivery_counts, delivery_logs


class DeliveryTrail:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def deliveries(
        self, record_id: RecordId, status: DeliveryStatus | None, *, limit: int, offset: int
    ) -> tuple[list[ToldDelivery], int]:
        wanted = deliveries.c.record_id == record_id
        if status is not None:
            wanted &= deliveries.c.status == status.value
        page = (
            select(deliveries)
            .where(wanted)
            .order_by(deliveries.c.id.desc())
            .limit(limit)
            .offset(offset)
        )

        def run(connection: Connection) -> tuple[list[ToldDelivery], int]:
            count = connection.execute(select(func.count()).where(wanted)).scalar_one()
            return [_told(row) for row in connection.execute(page)], count

        # Counting a million takes a while.
        return await self._database.read_beside(run)

    async def send_again(
        self, record_id: RecordId, id: int, entry: Entry, now: datetime
    ) -> ToldDelivery | None:
        own = (deliveries.c.record_id == record_id) & (deliveries.c.id == id)
        # It has all its attempts and its time before it, as a new one has.
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

        def change(connection: Connection) -> ToldDelivery | None:
            row = connection.execute(again).one_or_none()
            if row is None:
                return None
            activity.record(connection, entry, now)
            return _told(row)

        return await self._database.write(change)

    async def logs(
        self, record_id: RecordId, level: LogLevel | None, search: str, *, limit: int, offset: int
    ) -> tuple[list[ToldLine], int]:
        wanted = delivery_logs.c.record_id == record_id
        if level is not None:
            wanted &= delivery_logs.c.level == level.value
        if search:
            wanted &= delivery_logs.c.message.icontains(search, autoescape=True)
        page = (
            select(delivery_logs)
            .where(wanted)
            .order_by(delivery_logs.c.id.desc())
            .limit(limit)
            .offset(offset)
        )

        def run(connection: Connection) -> tuple[list[ToldLine], int]:
            count = connection.execute(select(func.count()).where(wanted)).scalar_one()
            lines = [
                ToldLine(
                    id=row.id,
                    line=LogLine(level=LogLevel(row.level), message=row.message, uuid=row.uuid),
                    created_at=row.created_at,
                )
                for row in connection.execute(page)
            ]
            return lines, count

        return await self._database.read(run)

    async def hours(self, record_id: RecordId, since_ms: int) -> list[Hour]:
        table = delivery_counts
        statement = (
            select(table)
            .where((table.c.record_id == record_id) & (table.c.hour_ms > since_ms))
            .order_by(table.c.hour_ms)
        )

        def run(connection: Connection) -> list[Hour]:
            return [
                Hour(
                    hour_ms=row.hour_ms,
                    delivered=row.delivered,
                    retried=row.retried,
                    dead=row.dead,
                    latencies=row.latencies,
                )
                for row in connection.execute(statement)
            ]

        return await self._database.read(run)


def _told(row: Row[tuple[object, ...]]) -> ToldDelivery:
    return ToldDelivery(
        id=row.id,
        uuid=row.uuid,
        distinct_id=row.distinct_id,
        event=unpacked_event(row.event),
        status=DeliveryStatus(row.status),
        attempts=row.attempts,
        due_ms=row.due_ms,
        error=row.error,
        created_ms=row.created_ms,
    )
