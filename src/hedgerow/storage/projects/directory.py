"""The directory: a snapshot of all projects and keys, and when keys were last used."""

from collections.abc import Mapping
from datetime import datetime

from sqlalchemy import Connection, select, update

from hedgerow.projects.model import KeyId, Organization, ProjectId, ProjectToken, User
from hedgerow.projects.store import DirectorySnapshot, DirectoryStore
from hedgerow.storage.engine import generations
from hedgerow.storage.engine.database import Database
from hedgerow.storage.projects.keys import decode_key
from hedgerow.storage.projects.projects import decode_project, projects_with_token
from hedgerow.storage.tables import (
    organizations,
    personal_keys,
    project_secrets,
    project_tokens,
    projects,
    users,
)


class SqlDirectoryStore(DirectoryStore):
    def __init__(self, database: Database) -> None:
        self._database = database

    async def generation(self) -> int:
        return await generations.fetch_generation(self._database, "directory")

    async def snapshot(self) -> DirectorySnapshot:
        return await self._database.read(_read_snapshot)

    async def save_last_use(self, used: Mapping[KeyId, datetime]) -> None:
        def change(connection: Connection) -> None:
            for id, moment in used.items():
                connection.execute(
                    update(personal_keys)
                    .where(personal_keys.c.id == id)
                    .values(last_used_at=moment)
                )

        await self._database.write(change)


def _read_snapshot(connection: Connection) -> DirectorySnapshot:
    return DirectorySnapshot(
        generation=generations.read_generation(connection, "directory"),
        users={user.id: user for user in _read_users(connection)},
        projects={
            ProjectId(row.id): decode_project(row)
            for row in connection.execute(projects_with_token.order_by(projects.c.id))
        },
        keys_by_hash={
            row.hash: decode_key(row) for row in connection.execute(select(personal_keys))
        },
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


def _read_users(connection: Connection) -> list[User]:
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
