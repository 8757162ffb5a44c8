"""What this room needs of storage, in its own words. storage/projects.py, keys.py and activity.py
answer.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from hedgerow.projects.activity import Actor, Entry, Recorded
from hedgerow.projects.model import (
    KeyId,
    PersonalKey,
    Project,
    ProjectId,
    ProjectToken,
    SecretKey,
    User,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Everything a request needs to know who is asking and for which project, as of one
    generation.
    """

    generation: int
    users: Mapping[int, User]
    projects: Mapping[ProjectId, Project]
    keys_by_hash: Mapping[str, PersonalKey]
    tokens: Mapping[str, ProjectToken]
    secrets_by_hash: Mapping[str, ProjectId]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewProject:
    name: str
    timezone: str
    api_token: str


class DirectoryStore(Protocol):
    async def generation(self) -> int: ...
    async def snapshot(self) -> Snapshot: ...
    async def note_use(self, used: Mapping[KeyId, datetime]) -> None: ...


class ProjectStore(Protocol):
    async def add_project(self, new: NewProject, actor: Actor, now: datetime) -> Project: ...
    async def edit_project(
        self, id: ProjectId, edit: Callable[[Project], Project], actor: Actor, now: datetime
    ) -> Project: ...
    async def rotate_token(
        self, id: ProjectId, token: str, old_until: datetime, actor: Actor, now: datetime
    ) -> Project: ...
    async def rotate_secret(
        self, id: ProjectId, secret: SecretKey, actor: Actor, now: datetime
    ) -> Project:
        """The one before stays good beside it, and the one before that no longer."""
        ...

    async def drop_backup_secret(self, id: ProjectId, actor: Actor, now: datetime) -> Project: ...


class KeyStore(Protocol):
    async def add_key(self, key: PersonalKey, actor: Actor, now: datetime) -> PersonalKey: ...
    async def edit_key(
        self,
        id: KeyId,
        edit: Callable[[PersonalKey], PersonalKey],
        activity: str,
        actor: Actor,
        now: datetime,
    ) -> PersonalKey: ...
    async def remove_key(self, id: KeyId, actor: Actor, now: datetime) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivityQuery:
    """Which entries to list; None means any."""

    project_id: ProjectId | None = None
    scope: str | None = None
    item_id: str | None = None
    limit: int = 10
    offset: int = 0


class ActivityStore(Protocol):
    async def record(self, entry: Entry, now: datetime) -> None: ...
    async def activity(self, query: ActivityQuery) -> tuple[list[Recorded], int]: ...
