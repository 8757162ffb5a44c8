"""Personal keys: make, change, roll, revoke. The value is given to the caller once and kept
nowhere.
"""

from dataclasses import dataclass, replace
from datetime import datetime

from hedgerow.errors import Invalid
from hedgerow.lib.tokens import random_token, token_hash, token_mask
from hedgerow.projects import scopes as scope_rules
from hedgerow.projects.activity import Actor
from hedgerow.projects.directory import Directory
from hedgerow.projects.model import (
    KEY_BITS,
    PERSONAL_KEY_PREFIX,
    KeyId,
    PersonalKey,
    ProjectId,
)
from hedgerow.projects.store import KeyStore
from hedgerow.projects.text import checked_text

LABEL_MAX = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyWish:
    """What a key shall be allowed; no project ids means every project."""

    label: str
    scopes: tuple[str, ...]
    project_ids: tuple[ProjectId, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuedKey:
    """A stored key together with its value: the one moment at which the value can be read."""

    key: PersonalKey
    value: str


def checked_label(label: str) -> str:
    return checked_text("label", label, LABEL_MAX)


def new_key_value() -> str:
    return random_token(PERSONAL_KEY_PREFIX, KEY_BITS)


def draft_key(wish: KeyWish, user_id: int, value: str, now: datetime) -> PersonalKey:
    return PersonalKey(
        id=KeyId(random_token("", 72)),
        user_id=user_id,
        label=checked_label(wish.label),
        hash=token_hash(value),
        mask=token_mask(value),
        scopes=scope_rules.checked(wish.scopes),
        project_ids=tuple(sorted(set(wish.project_ids))),
        created_at=now,
        last_used_at=None,
        last_rolled_at=None,
    )


class Keys:
    """Changes of personal keys, each followed by a fresh look of this process's directory."""

    def __init__(self, store: KeyStore, directory: Directory) -> None:
        self._store = store
        self._directory = directory

    async def issue(self, wish: KeyWish, user_id: int, actor: Actor, now: datetime) -> IssuedKey:
        self._check_projects(wish.project_ids)
        value = new_key_value()
        key = await self._store.add_key(draft_key(wish, user_id, value, now), actor, now)
        await self._directory.refresh()
        return IssuedKey(key=key, value=value)

    async def change(
        self,
        id: KeyId,
        *,
        label: str | None,
        scopes: tuple[str, ...] | None,
        project_ids: tuple[ProjectId, ...] | None,
        actor: Actor,
        now: datetime,
    ) -> PersonalKey:
        self._check_projects(project_ids or ())
        granted = None if scopes is None else scope_rules.checked(scopes)

        def edit(key: PersonalKey) -> PersonalKey:
            return replace(
                key,
                label=key.label if label is None else checked_label(label),
                scopes=key.scopes if granted is None else granted,
                project_ids=key.project_ids
                if project_ids is None
                else tuple(sorted(set(project_ids))),
            )

        key = await self._store.edit_key(id, edit, "updated", actor, now)
        await self._directory.refresh()
        return self._directory.with_last_use(key)

    async def roll(self, id: KeyId, actor: Actor, now: datetime) -> IssuedKey:
        """Give the key a new value; the old one stops working."""
        value = new_key_value()

        def edit(key: PersonalKey) -> PersonalKey:
            return replace(key, hash=token_hash(value), mask=token_mask(value), last_rolled_at=now)

        key = await self._store.edit_key(id, edit, "rolled", actor, now)
        await self._directory.refresh()
        return IssuedKey(key=self._directory.with_last_use(key), value=value)

    async def revoke(self, id: KeyId, actor: Actor, now: datetime) -> None:
        await self._store.remove_key(id, actor, now)
        await self._directory.refresh()

    def _check_projects(self, ids: tuple[ProjectId, ...]) -> None:
        for id in ids:
            if self._directory.project(id) is None:
                raise Invalid(
                    "You must be a member of all teams that you are scoping the key to.",
                    attr="scoped_teams",
                )
