"""The directory's SQL: all projects and keys at once, and when keys were last used."""

from collections.abc import Mapping
from datetime import datetime

from sqlalchemy import Connection, select, update

from hedgerow.projects.model import KeyId, Organization, ProjectId, ProjectToken, User
from hedgerow.projects.store import Snapshot
from hedgerow.storage import generations
from hedgerow.storage.database import Database
from hedgerow.storage.keys import key_from
from hedgerow.storage.projects import project_from, projects_with_token
from hedgerow.storage.tables import (
    organizations,
    personal_keys,
    project_secrets,
    project_tokens,
    projects,
    users,
)


class DirectoryRecords:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def generation(self) -> int:
        return await generations.number_of(self._database, "directory")

    async def snapshot(self) -> Snapshot:
        return await self._database.read(_snapshot)

    async def note_use(self, used: Mapping[KeyId, datetime]) -> None:
        def change(connection: Connection) -> None:
            for id, moment in used.items():
                connection.execute(
                    update(personal_keys)
                    .where(personal_keys.c.id == id)
                    .values(last_used_at=moment)
                )

        await self._database.write(change)


def _snapshot(connection: Connection) -> Snapshot:
    return Snapshot(
        generation=generations.current(connection, "directory"),
        users={user.id: user for user in _users(connection)},
        projects={
            ProjectId(row.id): project_from(row)
            for row in connection.execute(projects_with_token.order_by(projects.c.id))
        },
        keys_by_hash={row.hash: key_from(row) for row in connection.execute(select(personal_keys))},
        tokens={
            row.value: ProjectToken(
                value=row.value, project_id=ProjectId(row.project_id), expires_at=row.expires_at
            )
            for row in connection.execute(select(project_tokens))
        },
        secrets_by_hash={
            row.hash: ProjectId(row.project_id)
            for row in connection.execute(select(project_secrets))
        },
    )


def _users(connection: Connection) -> list[User]:
    statement = select(users, organizations.c.name.label("organization_name")).join(organizations)
    return [
        User(
            id=row.id,
            uuid=row.uuid,
            organization=Organization(id=row.organization_id, name=row.organization_name),
            first_name=row.first_name,
            email=row.email,
            distinct_id=row.distinct_id,
        )
        for row in connection.execute(statement)
    ]
