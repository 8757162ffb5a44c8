"""Storage of projects, keys and the activity log, implemented in `storage/projects/`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from hedgerow.projects.activity import ActivityEntry, Actor, RecordedActivity
from hedgerow.projects.model import (
    KeyId,
    LoginSession,
    PersonalKey,
    Project,
    ProjectId,
    ProjectToken,
    Role,
    SecretKey,
    User,
    WeekStart,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectorySnapshot:
    """All projects, people and keys at one generation, for authentication."""

    generation: int
    users: Mapping[int, User]
    projects: Mapping[ProjectId, Project]
    keys_by_hash: Mapping[str, PersonalKey]
    tokens: Mapping[str, ProjectToken]
    secrets_by_hash: Mapping[str, ProjectId]
    roles: Mapping[str, Role]
    sessions_by_hash: Mapping[str, LoginSession]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewProject:
    name: str
    timezone: str
    api_token: str
    week_start_day: WeekStart = WeekStart.SUNDAY


class DirectoryStore(Protocol):
    async def generation(self) -> int: ...
    async def snapshot(self) -> DirectorySnapshot: ...
    async def save_last_use(self, used: Mapping[KeyId, datetime]) -> None: ...
    async def save_session_use(self, used: Mapping[str, datetime]) -> None: ...


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
        """Add a secret key. The previous one stays valid, older ones do not."""
        ...

    async def drop_backup_secret(self, id: ProjectId, actor: Actor, now: datetime) -> Project: ...
    async def delete_project(self, id: ProjectId, actor: Actor, now: datetime) -> None:
        """Delete a project and its keys. Raises Invalid for the only project."""
        ...


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
    """Which entries to list; None means any. `user` is the email of the author, or the name of a
    key. `search` is a part of the name or email of the author, or of the name of the item. `since`
    belongs to the period, `until` does not."""

    project_id: ProjectId | None = None
    scope: str | None = None
    item_id: str | None = None
    activity: str | None = None
    user: str | None = None
    search: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    limit: int = 10
    offset: int = 0


class ActivityStore(Protocol):
    async def record(self, entry: ActivityEntry, now: datetime) -> None: ...
    async def list_activity(self, query: ActivityQuery) -> tuple[list[RecordedActivity], int]: ...
