"""Personal API keys. Every change is audited and advances the directory's generation."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select, update

from hedgerow.errors import NotFound
from hedgerow.projects.activity import ActivityEntry, Actor, diff_fields
from hedgerow.projects.model import KeyId, PersonalKey, ProjectId
from hedgerow.projects.store import KeyStore
from hedgerow.storage.engine import generations
from hedgerow.storage.engine.database import Database
from hedgerow.storage.projects import activity
from hedgerow.storage.tables import personal_keys

SCOPE = "PersonalAPIKey"


class SqlKeyStore(KeyStore):
    def __init__(self, database: Database) -> None:
        self._database = database

    async def add_key(self, key: PersonalKey, actor: Actor, now: datetime) -> PersonalKey:
        await self._database.write(lambda connection: insert_key(connection, key, actor, now))
        return key

    async def edit_key(
        self,
        id: KeyId,
        edit: Callable[[PersonalKey], PersonalKey],
        activity: str,
        actor: Actor,
        now: datetime,
    ) -> PersonalKey:
        def change(connection: Connection) -> PersonalKey:
            before = _lock_key(connection, id)
            after = edit(before)
            if after == before:
                return before
            connection.execute(
                update(personal_keys)
                .where(personal_keys.c.id == id)
                # Not last_used_at: another process may update it concurrently.
                .values(
                    label=after.label,
                    hash=after.hash,
                    mask=after.mask,
                    scopes=after.scopes,
                    project_ids=after.project_ids,
                    last_rolled_at=after.last_rolled_at,
                )
            )
            _record_change(connection, activity, before, after, actor, now)
            return after

        return await self._database.write(change)

    async def remove_key(self, id: KeyId, actor: Actor, now: datetime) -> None:
        def change(connection: Connection) -> None:
            before = _lock_key(connection, id)
            connection.execute(delete(personal_keys).where(personal_keys.c.id == id))
            _record_change(connection, "revoked", before, None, actor, now)

        await self._database.write(change)


def insert_key(connection: Connection, key: PersonalKey, actor: Actor, now: datetime) -> None:
    connection.execute(insert(personal_keys), asdict(key))
    _record_change(connection, "created", None, key, actor, now)


def take_project_off(
    connection: Connection, project_id: ProjectId, actor: Actor, now: datetime
) -> None:
    """Take a deleted project off the keys that are limited to some projects. A key that has no
    other project is revoked: without any it would have access to all."""
    rows = connection.execute(select(personal_keys).with_for_update()).all()
    for before in map(decode_key, rows):
        if project_id not in before.project_ids:
            continue
        own = personal_keys.c.id == before.id
        left = tuple(id for id in before.project_ids if id != project_id)
        if left:
            after = replace(before, project_ids=left)
            connection.execute(update(personal_keys).where(own).values(project_ids=left))
            _record_change(connection, "updated", before, after, actor, now)
        else:
            connection.execute(delete(personal_keys).where(own))
            _record_change(connection, "revoked", before, None, actor, now)


def decode_key(row: Row[Any]) -> PersonalKey:
    return PersonalKey(
        id=row.id,
        user_id=row.user_id,
        label=row.label,
        hash=row.hash,
        mask=row.mask,
        scopes=tuple(row.scopes),
        project_ids=tuple(row.project_ids),
        created_at=row.created_at,
        last_used_at=row.last_used_at,
        last_rolled_at=row.last_rolled_at,
    )


def _lock_key(connection: Connection, id: KeyId) -> PersonalKey:
    row = connection.execute(
        select(personal_keys).where(personal_keys.c.id == id).with_for_update()
    ).one_or_none()
    if row is None:
        raise NotFound
    return decode_key(row)


def _record_change(
    connection: Connection,
    activity_name: str,
    before: PersonalKey | None,
    after: PersonalKey | None,
    actor: Actor,
    now: datetime,
) -> None:
    key = after or before
    assert key is not None
    activity.record(
        connection,
        ActivityEntry(
            scope=SCOPE,
            item_id=key.id,
            item_name=key.label,
            activity=activity_name,
            actor=actor,
            project_id=None,
            changes=diff_fields(SCOPE, _get_audited_fields(before), _get_audited_fields(after)),
        ),
        now,
    )
    generations.advance(connection, "directory")


def _get_audited_fields(key: PersonalKey | None) -> Mapping[str, Any]:
    """Return the audited fields. The hash is not among them."""
    if key is None:
        return {}
    return {
        "label": key.label,
        "mask_value": key.mask,
        "scopes": list(key.scopes),
        "scoped_teams": list(key.project_ids),
    }
