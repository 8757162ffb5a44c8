"""Dead letters of a destination, as the job that retries them needs them."""

from sqlalchemy import ColumnElement, Connection, func, select, update

from hedgerow.pipelines.deliveries.model import DeliveryStatus
from hedgerow.pipelines.jobs.dead_letter_retry import (
    DeadLetterQueue,
    DeadLetterSpan,
    RetriedLetters,
)
from hedgerow.pipelines.model import RecordId
from hedgerow.storage.deliveries.queue import end_pause
from hedgerow.storage.engine.database import Database
from hedgerow.storage.tables import deliveries as table
from hedgerow.storage.tables import delivery_events


class SqlDeadLetterQueue(DeadLetterQueue):
    def __init__(self, database: Database) -> None:
        self._database = database

    async def find_newest(self, record_id: RecordId) -> int:
        newest = select(func.max(delivery_events.c.id))
        return await self._database.read(
            lambda connection: connection.execute(newest).scalar() or 0
        )

    async def count(self, record_id: RecordId, span: DeadLetterSpan) -> int:
        number = select(func.count()).where(_is_dead(record_id, span))
        return await self._database.read_in_background(
            lambda connection: connection.execute(number).scalar_one()
        )

    async def count_retrying(self, record_id: RecordId, at_most: int) -> int:
        retrying = table.c.status == DeliveryStatus.RETRYING.value
        some = select(table.c.id).where((table.c.record_id == record_id) & retrying).limit(at_most)
        number = select(func.count()).select_from(some.subquery())
        return await self._database.read(lambda connection: connection.execute(number).scalar_one())

    async def retry(
        self, record_id: RecordId, span: DeadLetterSpan, limit: int, now_ms: int
    ) -> RetriedLetters | None:
        dead = _is_dead(record_id, span)
        oldest = select(table.c.event_id).where(dead).order_by(table.c.event_id)

        def change(connection: Connection) -> RetriedLetters | None:
            ids = connection.execute(oldest.limit(limit)).scalars().all()
            if not ids:
                return None
            # Like new deliveries: no attempts yet, and their maximum age starts now.
            connection.execute(
                update(table)
                .where((table.c.record_id == record_id) & table.c.event_id.in_(ids))
                .values(
                    status=DeliveryStatus.RETRYING.value, attempts=0, due_ms=0, created_ms=now_ms
                )
            )
            end_pause(connection, record_id)
            return RetriedLetters(count=len(ids), last_id=ids[-1])

        return await self._database.write(change)


def _is_dead(record_id: RecordId, span: DeadLetterSpan) -> ColumnElement[bool]:
    wanted = (
        (table.c.record_id == record_id)
        & (table.c.status == DeliveryStatus.DEAD.value)
        & (table.c.event_id > span.after)
        & (table.c.event_id <= span.newest)
    )
    return wanted & (table.c.error == span.error) if span.error else wanted
