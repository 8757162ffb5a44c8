"""Who people are at a provider."""

from datetime import datetime

from sqlalchemy import Connection, delete, insert, select
from sqlalchemy.exc import IntegrityError

from hedgerow.people.oidc.model import IdentityStore
from hedgerow.projects.activity import COMMAND_LINE, Actor
from hedgerow.projects.model import User
from hedgerow.storage.engine.database import Database
from hedgerow.storage.people.user_activity import USER_SCOPE, record_change
from hedgerow.storage.tables import user_identities as table


class SqlIdentityStore(IdentityStore):
    def __init__(self, database: Database) -> None:
        self._database = database

    async def find_user_id(self, issuer: str, subject: str) -> int | None:
        own = (table.c.issuer == issuer) & (table.c.subject == subject)
        found = select(table.c.user_id).where(own)
        return await self._database.read(lambda connection: connection.execute(found).scalar())

    async def add(self, issuer: str, subject: str, user: User, now: datetime) -> bool:
        row = {"issuer": issuer, "subject": subject, "user_id": user.id, "created_at": now}
        actor = Actor(kind="user", id=user.uuid, name=user.first_name, email=user.email)

        def change(connection: Connection) -> None:
            connection.execute(insert(table), row)
            item = (user.uuid, user.email)
            record_change(connection, USER_SCOPE, item, "provider_connected", actor, now)

        try:
            await self._database.write(change)
        except IntegrityError:
            return False
        return True

    async def remove(self, user: User, now: datetime) -> bool:
        own = table.c.user_id == user.id

        def change(connection: Connection) -> bool:
            if not connection.execute(delete(table).where(own)).rowcount:
                return False
            item = (user.uuid, user.email)
            record_change(connection, USER_SCOPE, item, "provider_disconnected", COMMAND_LINE, now)
            return True

        return await self._database.write(change)
