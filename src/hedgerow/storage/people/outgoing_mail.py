"""The queue of mail."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Connection, delete, func, insert, select, update

from hedgerow.people.mail.outbox import MailKind, MailStore, QueuedMail
from hedgerow.storage.engine.database import Database
from hedgerow.storage.tables import outgoing_mail as table


class SqlMailStore(MailStore):
    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(
        self,
        kind: MailKind,
        recipient: str,
        details: str | None,
        now: datetime,
        expires_at: datetime,
    ) -> None:
        row = {
            "kind": kind,
            "recipient": recipient,
            "details": details,
            "attempts": 0,
            "due_at": now,
            "created_at": now,
            "expires_at": expires_at,
        }
        await self._database.write(
            lambda connection: connection.execute(insert(table), row).close()
        )

    async def count(self) -> int:
        counted = select(func.count()).select_from(table)
        return await self._database.read(
            lambda connection: connection.execute(counted).scalar_one()
        )

    async def claim(self, now: datetime, until: datetime, limit: int) -> Sequence[QueuedMail]:
        due = table.c.due_at <= now
        first = select(table.c.id).where(due).order_by(table.c.id).limit(limit)
        # A process that waited for another's claim finds that the rows are no longer due.
        claim = (
            update(table)
            .where(due & table.c.id.in_(first.scalar_subquery()))
            .values(due_at=until)
            .returning(table)
        )

        def change(connection: Connection) -> list[QueuedMail]:
            return [
                QueuedMail(
                    id=row.id,
                    kind=row.kind,
                    recipient=row.recipient,
                    details=row.details,
                    attempts=row.attempts,
                    expires_at=row.expires_at,
                )
                for row in connection.execute(claim)
            ]

        if not await self._database.read(lambda connection: connection.execute(first).first()):
            return ()
        return await self._database.write(change)

    async def postpone(self, id: int, attempts: int, until: datetime) -> None:
        again = update(table).where(table.c.id == id)
        values = {"attempts": attempts, "due_at": until}
        await self._database.write(
            lambda connection: connection.execute(again.values(values)).close()
        )

    async def remove(self, id: int) -> None:
        sent = delete(table).where(table.c.id == id)
        await self._database.write(lambda connection: connection.execute(sent).close())
