"""Personal keys' SQL. Every change tells the audit trail and moves the directory's generation."""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select, update

from hedgerow.errors import NotFound
from hedgerow.projects.activity import Actor, Entry, differences
from hedgerow.projects.model import KeyId, PersonalKey
from hedgerow.storage import activity, generations
from hedgerow.storage.database import Database
from hedgerow.storage.tables import personal_keys

SCOPE = "PersonalAPIKey"


class KeyRecords:
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
            before = _locked(connection, id)
            after = edit(before)
            if after == before:
                return before
            connection.execute(
                update(personal_keys)
                .where(personal_keys.c.id == id)
                # Not last_used_at: another process may note a use at this very moment.
                .values(
                    label=after.label,
                    hash=after.hash,
                    mask=after.mask,
                    scopes=after.scopes,
                    project_ids=after.project_ids,
                    last_rolled_at=after.last_rolled_at,
                )
            )
            _tell(connection, activity, before, after, actor, now)
            return after

        return await self._database.write(change)

    async def remove_key(self, id: KeyId, actor: Actor, now: datetime) -> None:
        def change(connection: Connection) -> None:
            before = _locked(connection, id)
            connection.execute(delete(personal_keys).where(personal_keys.c.id == id))
            _tell(connection, "revoked", before, None, actor, now)

        await self._database.write(change)


def insert_key(connection: Connection, key: PersonalKey, actor: Actor, now: datetime) -> None:
    connection.execute(insert(personal_keys), asdict(key))
    _tell(connection, "created", None, key, actor, now)


def key_from(row: Row[Any]) -> PersonalKey:
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


def _locked(connection: Connection, id: KeyId) -> PersonalKey:
    row = connection.execute(
        select(personal_keys).where(personal_keys.c.id == id).with_for_update()
    ).one_or_none()
    if row is None:
        raise NotFound
    return key_from(row)


def _tell(
    connection: Connection,
    verb: str,
    before: PersonalKey | None,
    after: PersonalKey | None,
    actor: Actor,
    now: datetime,
) -> None:
    key = after or before
    assert key is not None
    activity.record(
        connection,
        Entry(
            scope=SCOPE,
            item_id=key.id,
            item_name=key.label,
            activity=verb,
            actor=actor,
            project_id=None,
            changes=differences(SCOPE, _audited(before), _audited(after)),
        ),
        now,
    )
    generations.advance(connection, "directory")


def _audited(key: PersonalKey | None) -> Mapping[str, Any]:
    """The fields worth a line in the trail. The hash is none of them."""
    if key is None:
        return {}
    return {
        "label": key.label,
        "mask_value": key.mask,
        "scopes": list(key.scopes),
        "scoped_teams": list(key.project_ids),
    }
