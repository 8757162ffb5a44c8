"""Projects. Every change is audited and advances the directory's generation."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any
from uuid import uuid4

from sqlalchemy import Connection, Label, Row, delete, insert, select, update

from hedgerow.errors import Invalid, NotFound
from hedgerow.projects.activity import ActivityEntry, Actor, diff_fields
from hedgerow.projects.model import Project, ProjectId, SchemaMode, SecretKey, WeekStart
from hedgerow.projects.store import NewProject, ProjectStore
from hedgerow.storage.engine import generations
from hedgerow.storage.engine.database import Database
from hedgerow.storage.projects import activity, keys
from hedgerow.storage.projects.deletions import insert_deletion, is_deleted
from hedgerow.storage.tables import (
    generations as generation_rows,
)
from hedgerow.storage.tables import (
    organizations,
    pipeline_jobs,
    pipeline_records,
    project_secrets,
    project_tokens,
    projects,
)

SCOPE = "Project"


def _select_secret_mask(*, backup: bool) -> Label[str]:
    own = project_secrets.c.project_id == projects.c.id
    which = project_secrets.c.is_backup == backup
    mask = select(project_secrets.c.mask).where(own & which).scalar_subquery()
    return mask.label("backup_secret_mask" if backup else "secret_mask")


projects_with_token = (
    select(
        projects,
        project_tokens.c.value.label("api_token"),
        _select_secret_mask(backup=False),
        _select_secret_mask(backup=True),
    )
    .join(project_tokens)
    .where(project_tokens.c.expires_at.is_(None))
)


class SqlProjectStore(ProjectStore):
    def __init__(self, database: Database) -> None:
        self._database = database

    async def add_project(self, new: NewProject, actor: Actor, now: datetime) -> Project:
        return await self._database.write(
            lambda connection: insert_project(connection, new, actor, now)
        )

    async def edit_project(
        self, id: ProjectId, edit: Callable[[Project], Project], actor: Actor, now: datetime
    ) -> Project:
        def change(connection: Connection) -> Project:
            before = _lock_and_read(connection, id)
            after = edit(before)
            if after == before:
                return before
            connection.execute(
                update(projects)
                .where(projects.c.id == id)
                .values(
                    name=after.name,
                    timezone=after.timezone,
                    retention_days=after.retention_days,
                    test_account_filters=list(after.test_account_filters),
                    schema_mode=after.schema_mode.value,
                    week_start_day=after.week_start_day.value,
                    updated_at=now,
                )
            )
            if after.schema_mode is not before.schema_mode:
                generations.advance(connection, generations.schema_topic(id))
            return _record_update(connection, "updated", before, actor, now)

        return await self._database.write(change)

    async def rotate_token(
        self, id: ProjectId, token: str, old_until: datetime, actor: Actor, now: datetime
    ) -> Project:
        def change(connection: Connection) -> Project:
            before = _lock_and_read(connection, id)
            connection.execute(
                update(project_tokens)
                .where(project_tokens.c.value == before.api_token)
                .values(expires_at=old_until)
            )
            _insert_token(connection, id, token, now)
            connection.execute(update(projects).where(projects.c.id == id).values(updated_at=now))
            return _record_update(connection, "token_rotated", before, actor, now)

        return await self._database.write(change)

    async def rotate_secret(
        self, id: ProjectId, secret: SecretKey, actor: Actor, now: datetime
    ) -> Project:
        def change(connection: Connection) -> Project:
            before = _lock_and_read(connection, id)
            own = project_secrets.c.project_id == id
            connection.execute(delete(project_secrets).where(own & project_secrets.c.is_backup))
            connection.execute(update(project_secrets).where(own).values(is_backup=True))
            connection.execute(
                insert(project_secrets),
                {
                    "project_id": id,
                    "is_backup": False,
                    "hash": secret.hash,
                    "mask": secret.mask,
                    "created_at": now,
                },
            )
            return _record_update(connection, "secret_rotated", before, actor, now)

        return await self._database.write(change)

    async def drop_backup_secret(self, id: ProjectId, actor: Actor, now: datetime) -> Project:
        def change(connection: Connection) -> Project:
            before = _lock_and_read(connection, id)
            if not before.backup_secret_mask:
                return before
            own = project_secrets.c.project_id == id
            connection.execute(delete(project_secrets).where(own & project_secrets.c.is_backup))
            return _record_update(connection, "secret_backup_deleted", before, actor, now)

        return await self._database.write(change)

    async def delete_project(self, id: ProjectId, actor: Actor, now: datetime) -> None:
        await self._database.write(lambda connection: _delete_project(connection, id, actor, now))

    async def delete_expired_tokens(self, now: datetime) -> None:
        """Delete rotated public keys whose grace period is over."""
        await self._database.write(
            lambda connection: connection.execute(
                delete(project_tokens).where(project_tokens.c.expires_at < now)
            ).close()
        )


def lock_project(connection: Connection, project_id: ProjectId) -> None:
    """Lock the project until the end of the transaction, which serializes changes within it.

    Raises NotFound if it does not exist any more. SQLite needs no lock: it has one writer. The lock
    leaves inserts that refer to the project alone: captured events do not wait for a change.
    """
    own = select(projects.c.id).where(projects.c.id == project_id)
    is_found = connection.execute(own.with_for_update(key_share=True)).one_or_none() is not None
    # A statement of its own: one that waited for the lock would not see the deletion.
    if not is_found or connection.execute(select(is_deleted(project_id))).scalar():
        raise NotFound("Project not found.")


def _delete_project(connection: Connection, id: ProjectId, actor: Actor, now: datetime) -> None:
    """Take away everything by which the project is reached. Its data is deleted after."""
    # All of them, so that two deletions at the same time leave one project.
    every = select(projects.c.id).order_by(projects.c.id).with_for_update(key_share=True)
    connection.execute(every).all()
    before = _lock_and_read(connection, id)
    others = select(projects.c.id).where((projects.c.id != id) & ~is_deleted(projects.c.id))
    if connection.execute(others.limit(1)).first() is None:
        raise Invalid(
            "This is the only project. Create another one first, then delete this one.",
            code="last_project",
        )
    insert_deletion(connection, id, now)
    for table in (project_tokens, project_secrets):
        connection.execute(delete(table).where(table.c.project_id == id))
    keys.take_project_off(connection, id, actor, now)
    # Nothing is delivered, imported or replayed any more.
    connection.execute(delete(pipeline_jobs).where(pipeline_jobs.c.project_id == id))
    connection.execute(
        update(pipeline_records)
        .where(pipeline_records.c.project_id == id)
        .values(enabled=False, deleted=True)
    )
    topics = select(generation_rows.c.topic).where(generation_rows.c.topic.like(f"%:{id}"))
    for topic in connection.execute(topics).scalars().all():
        generations.advance(connection, topic)
    activity.record(connection, _build_entry("deleted", before, None, actor), now)
    generations.advance(connection, "directory")


def insert_project(connection: Connection, new: NewProject, actor: Actor, now: datetime) -> Project:
    id = connection.execute(
        insert(projects)
        .values(
            uuid=str(uuid4()),
            organization_id=select(organizations.c.id).limit(1).scalar_subquery(),
            name=new.name,
            timezone=new.timezone,
            week_start_day=new.week_start_day.value,
            created_at=now,
            updated_at=now,
        )
        .returning(projects.c.id)
    ).scalar_one()
    _insert_token(connection, ProjectId(id), new.api_token, now)
    created = _lock_and_read(connection, ProjectId(id))
    activity.record(connection, _build_entry("created", None, created, actor), now)
    generations.advance(connection, "directory")
    return created


def decode_project(row: Row[Any]) -> Project:
    return Project(
        id=row.id,
        uuid=row.uuid,
        organization_id=row.organization_id,
        name=row.name,
        timezone=row.timezone,
        api_token=row.api_token,
        created_at=row.created_at,
        updated_at=row.updated_at,
        retention_days=row.retention_days,
        test_account_filters=row.test_account_filters or [],
        schema_mode=SchemaMode(row.schema_mode or SchemaMode.WARN),
        week_start_day=WeekStart(row.week_start_day or WeekStart.SUNDAY),
        secret_mask=row.secret_mask or "",
        backup_secret_mask=row.backup_secret_mask or "",
    )


def _insert_token(connection: Connection, id: ProjectId, token: str, now: datetime) -> None:
    connection.execute(
        insert(project_tokens),
        {"value": token, "project_id": id, "created_at": now, "expires_at": None},
    )


def _lock_and_read(connection: Connection, id: ProjectId) -> Project:
    # Lock before reading: a row read while waiting for the lock would be stale.
    lock_project(connection, id)
    return decode_project(connection.execute(projects_with_token.where(projects.c.id == id)).one())


def _record_update(
    connection: Connection, activity_name: str, before: Project, actor: Actor, now: datetime
) -> Project:
    after = _lock_and_read(connection, before.id)
    entry = _build_entry(activity_name, before, after, actor)
    activity.record(connection, entry, now)
    generations.advance(connection, "directory")
    return after


def _build_entry(
    activity_name: str, before: Project | None, after: Project | None, actor: Actor
) -> ActivityEntry:
    """Build the entry of a change. That of a deletion belongs to no project, and so it stays."""
    project = after or before
    assert project is not None
    return ActivityEntry(
        scope=SCOPE,
        item_id=str(project.id),
        item_name=project.name,
        activity=activity_name,
        actor=actor,
        project_id=None if after is None else project.id,
        changes=diff_fields(SCOPE, _get_audited_fields(before), _get_audited_fields(after)),
    )


def _get_audited_fields(project: Project | None) -> Mapping[str, Any]:
    if project is None:
        return {}
    return {
        "name": project.name,
        "timezone": project.timezone,
        "api_token": project.api_token,
        "retention_days": project.retention_days,
        "test_account_filters": list(project.test_account_filters) or None,
        "schema_mode": project.schema_mode.value,
        "week_start_day": project.week_start_day.value,
        "secret_api_token": project.secret_mask or None,
        "secret_api_token_backup": project.backup_secret_mask or None,
    }
