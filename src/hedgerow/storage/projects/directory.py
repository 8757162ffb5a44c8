"""The directory: a snapshot of all projects, people, keys and sessions, and their last use."""

from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime

from sqlalchemy import Connection, select, update

from hedgerow.projects.model import (
    KeyId,
    LoginSession,
    Organization,
    ProjectId,
    ProjectToken,
    Role,
    User,
)
from hedgerow.projects.roles import combine_roles
from hedgerow.projects.store import DirectorySnapshot, DirectoryStore
from hedgerow.storage.engine import generations
from hedgerow.storage.engine.database import Database
from hedgerow.storage.projects.keys import decode_key
from hedgerow.storage.projects.projects import decode_project, projects_with_token
from hedgerow.storage.tables import (
    organizations,
    personal_keys,
    project_members,
    project_secrets,
    project_tokens,
    projects,
    roles,
    sessions,
    users,
)


class SqlDirectoryStore(DirectoryStore):
    def __init__(self, database: Database) -> None:
        self._database = database

    async def generation(self) -> int:
        return await generations.fetch_generation(self._database, "directory")

    async def snapshot(self) -> DirectorySnapshot:
        return await self._database.read_in_background(_read_snapshot)

    async def save_last_use(self, used: Mapping[KeyId, datetime]) -> None:
        def change(connection: Connection) -> None:
            for id, moment in used.items():
                connection.execute(
                    update(personal_keys)
                    .where(personal_keys.c.id == id)
                    .values(last_used_at=moment)
                )

        await self._database.write(change)

    async def save_session_use(self, used: Mapping[str, datetime]) -> None:
        def change(connection: Connection) -> None:
            for id, moment in used.items():
                connection.execute(
                    update(sessions).where(sessions.c.id == id).values(last_used_at=moment)
                )

        await self._database.write(change)


def _read_snapshot(connection: Connection) -> DirectorySnapshot:
    all_roles = combine_roles(
        Role(id=row.id, name=row.name, scopes=frozenset(row.scopes))
        for row in connection.execute(select(roles).order_by(roles.c.created_at, roles.c.id))
    )
    return DirectorySnapshot(
        generation=generations.read_generation(connection, "directory"),
        users={user.id: user for user in _read_users(connection, all_roles)},
        roles=all_roles,
        sessions_by_hash={
            row.hash: LoginSession(**row._mapping) for row in connection.execute(select(sessions))
        },
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


def _read_users(connection: Connection, all_roles: Mapping[str, Role]) -> list[User]:
    project_roles: dict[int, dict[ProjectId, Role]] = defaultdict(dict)
    for row in connection.execute(select(project_members)):
        if row.role_id in all_roles:
            project_roles[row.user_id][ProjectId(row.project_id)] = all_roles[row.role_id]
    statement = select(users, organizations.c.name.label("organization_name")).join(organizations)
    return [
        User(
            id=row.id,
            uuid=row.uuid,
            organization=Organization(id=row.organization_id, name=row.organization_name),
            first_name=row.first_name,
            email=row.email,
            distinct_id=row.distinct_id,
            created_at=row.created_at,
            organization_role=row.organization_role,
            project_roles=project_roles[row.id],
            has_password=row.password_hash is not None,
            has_totp=row.totp_secret is not None,
            last_login_at=row.last_login_at,
        )
        for row in connection.execute(statement)
    ]
