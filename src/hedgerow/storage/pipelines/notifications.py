"""The outbox of operator notifications."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Connection, delete, insert, select, update

from hedgerow.pipelines.store import Notification, NotificationStore
from hedgerow.storage.engine.database import Database
from hedgerow.storage.tables import notifications as table


def add_notification(connection: Connection, body: str, now: datetime) -> None:
    """Queue a notification. Call this in the transaction of the change that it reports."""
    values = {"body": body, "attempts": 0, "due_ms": _to_ms(now), "created_ms": _to_ms(now)}
    connection.execute(insert(table), values)


class SqlNotificationStore(NotificationStore):
    def __init__(self, database: Database) -> None:
        self._database = database

    async def claim(self, now: datetime, until: datetime, limit: int) -> Sequence[Notification]:
        due = table.c.due_ms <= _to_ms(now)
        first = select(table.c.id).where(due).order_by(table.c.id).limit(limit)
        # A process that waited for another's claim finds that the rows are no longer due.
        claim = (
            update(table)
            .where(due & table.c.id.in_(first.scalar_subquery()))
            .values(due_ms=_to_ms(until))
            .returning(table)
        )

        def change(connection: Connection) -> list[Notification]:
            return [
                Notification(
                    id=row.id, body=row.body, attempts=row.attempts, created_ms=row.created_ms
                )
                for row in sorted(connection.execute(claim), key=lambda row: row.id)
            ]

        if not await self._database.read(lambda connection: connection.execute(first).first()):
            return ()
        return await self._database.write(change)

    async def postpone(self, id: int, attempts: int, until: datetime) -> None:
        again = update(table).where(table.c.id == id)
        values = {"attempts": attempts, "due_ms": _to_ms(until)}
        await self._database.write(lambda connection: connection.execute(again.values(values)))

    async def remove(self, id: int) -> None:
        await self._database.write(
            lambda connection: connection.execute(delete(table).where(table.c.id == id))
        )


def _to_ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)
