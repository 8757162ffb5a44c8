"""Personal API keys: create, change, roll, revoke. The value is returned once and never stored."""

from dataclasses import dataclass, replace
from datetime import datetime

from hedgerow.errors import Invalid
from hedgerow.lib.tokens import generate_token, hash_token, mask_token
from hedgerow.projects import scopes as scope_rules
from hedgerow.projects.activity import Actor
from hedgerow.projects.directory import Directory
from hedgerow.projects.model import (
    KEY_BITS,
    PERSONAL_KEY_PREFIX,
    KeyId,
    PersonalKey,
    ProjectId,
    User,
)
from hedgerow.projects.store import KeyStore
from hedgerow.projects.validation import validate_text

MAX_LABEL_CHARS = 40
MAX_LISTED_PROJECTS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRequest:
    """The properties of a new key. Without project ids it has access to every project."""

    label: str
    scopes: tuple[str, ...]
    project_ids: tuple[ProjectId, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuedKey:
    """A stored key with its value, which cannot be read later."""

    key: PersonalKey
    value: str


def validate_label(label: str) -> str:
    return validate_text("label", label, MAX_LABEL_CHARS)


def generate_key_value() -> str:
    return generate_token(PERSONAL_KEY_PREFIX, KEY_BITS)


def build_key(request: KeyRequest, user_id: int, value: str, now: datetime) -> PersonalKey:
    return PersonalKey(
        id=KeyId(generate_token("", 72)),
        user_id=user_id,
        label=validate_label(request.label),
        hash=hash_token(value),
        mask=mask_token(value),
        scopes=scope_rules.validate_scopes(request.scopes),
        project_ids=tuple(sorted(set(request.project_ids))),
        created_at=now,
        last_used_at=None,
        last_rolled_at=None,
    )


class Keys:
    """Changes personal API keys, and refreshes the directory of this process."""

    def __init__(self, store: KeyStore, directory: Directory) -> None:
        self._store = store
        self._directory = directory

    async def issue(
        self, request: KeyRequest, user: User, actor: Actor, now: datetime
    ) -> IssuedKey:
        self._check_projects(request.project_ids, user)
        value = generate_key_value()
        key = await self._store.add_key(build_key(request, user.id, value, now), actor, now)
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
        if project_ids and (known := self._directory.get_key(id)):
            self._check_projects(project_ids, self._directory.get_user(known.user_id))
        granted = None if scopes is None else scope_rules.validate_scopes(scopes)

        def edit(key: PersonalKey) -> PersonalKey:
            return replace(
                key,
                label=key.label if label is None else validate_label(label),
                scopes=key.scopes if granted is None else granted,
                project_ids=key.project_ids
                if project_ids is None
                else tuple(sorted(set(project_ids))),
            )

        key = await self._store.edit_key(id, edit, "updated", actor, now)
        await self._directory.refresh()
        return self._directory.add_last_use(key)

    async def roll(self, id: KeyId, actor: Actor, now: datetime) -> IssuedKey:
        """Replace the value of the key. The old value stops working."""
        value = generate_key_value()

        def edit(key: PersonalKey) -> PersonalKey:
            return replace(key, hash=hash_token(value), mask=mask_token(value), last_rolled_at=now)

        key = await self._store.edit_key(id, edit, "rolled", actor, now)
        await self._directory.refresh()
        return IssuedKey(key=self._directory.add_last_use(key), value=value)

    async def revoke(self, id: KeyId, actor: Actor, now: datetime) -> None:
        await self._store.remove_key(id, actor, now)
        await self._directory.refresh()

    def _check_projects(self, ids: tuple[ProjectId, ...], user: User) -> None:
        for id in ids:
            if self._directory.get_project(id) is None or not user.may_see(id):
                raise Invalid(
                    f"There is no project {id}. {self._describe_projects(user)}",
                    attr="scoped_teams",
                    code="does_not_exist",
                )

    def _describe_projects(self, user: User) -> str:
        """List the projects that the person may see."""
        projects = [each for each in self._directory.list_projects() if user.may_see(each.id)]
        listed = ", ".join(f"{each.id} ({each.name})" for each in projects[:MAX_LISTED_PROJECTS])
        more = len(projects) - MAX_LISTED_PROJECTS
        return f"Expected one of: {listed}{f' and {more} more' if more > 0 else ''}."
