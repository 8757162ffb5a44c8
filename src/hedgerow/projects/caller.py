"""The caller of a request: who it is, what it may see and what it may do.

A personal key and a session both become a caller. The rights of a key are its scopes, cut by the
role that its owner has now; a session has all rights of its person.
"""

from dataclasses import dataclass
from typing import Literal

from hedgerow.projects.activity import Actor
from hedgerow.projects.model import KeyId, LoginSession, PersonalKey, ProjectId, User
from hedgerow.projects.scopes import ALL_SCOPES, is_allowed

# What is missing for an action: a scope of the key, or of the role of the person.
Lack = Literal["scope", "role"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """`id` is that of the key or of the session. Without `project_ids`, it may see every project
    that its person may see."""

    id: KeyId
    user: User
    scopes: tuple[str, ...]
    project_ids: tuple[ProjectId, ...]
    key: PersonalKey | None = None
    session: LoginSession | None = None

    @property
    def actor(self) -> Actor:
        """The author of the changes that the caller makes."""
        user, key = self.user, self.key
        if key is None:
            return Actor(kind="user", id=user.uuid, name=user.first_name, email=user.email)
        return Actor(kind="key", id=key.id, name=key.label, email=user.email)

    @property
    def has_all_scopes(self) -> bool:
        """Whether nothing but the role limits the caller: a session, or an all-access key."""
        return ALL_SCOPES in self.scopes and not self.project_ids

    @property
    def is_unrestricted(self) -> bool:
        """Whether it may see every project, those of the future included."""
        return not self.project_ids and self.user.is_owner

    def may_see(self, project_id: ProjectId) -> bool:
        return self._is_key_for(project_id) and self.user.may_see(project_id)

    def _is_key_for(self, project_id: ProjectId) -> bool:
        return not self.project_ids or project_id in self.project_ids

    def find_lack_of_sight(self, project_id: ProjectId) -> Lack | None:
        """Return what keeps the caller from a project, None if nothing does."""
        if not self._is_key_for(project_id):
            return "scope"
        return None if self.user.may_see(project_id) else "role"

    def find_lack(self, scope: str, project_id: ProjectId | None) -> Lack | None:
        """Return what the caller lacks for a scope, None if it may act. Without a project the role
        does not matter here: such paths are open to every member, or to owners only."""
        if not scope:
            return None
        if not is_allowed(self.scopes, scope):
            return "scope"
        if project_id is None or self.user.is_owner:
            return None
        role = self.user.project_roles.get(project_id)
        return None if role is not None and is_allowed(role.scopes, scope) else "role"


def call_with_key(key: PersonalKey, user: User) -> Caller:
    return Caller(
        id=key.id,
        user=user,
        scopes=key.scopes,
        project_ids=key.project_ids,
        key=key,
    )


def call_with_session(session: LoginSession, user: User) -> Caller:
    return Caller(
        id=KeyId(f"session:{session.id}"),
        user=user,
        scopes=(ALL_SCOPES,),
        project_ids=(),
        session=session,
    )
