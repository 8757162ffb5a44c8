"""Projects: create, change, delete, and rotate their keys."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from enum import Enum
from functools import cache
from typing import Any, Final
from zoneinfo import available_timezones

from hedgerow.errors import Invalid
from hedgerow.lib.tokens import generate_token, hash_token, mask_token
from hedgerow.projects.activity import Actor
from hedgerow.projects.directory import POLL_INTERVAL_S, Directory
from hedgerow.projects.model import (
    KEY_BITS,
    PROJECT_KEY_PREFIX,
    SECRET_KEY_PREFIX,
    Project,
    ProjectId,
    SchemaMode,
    SecretKey,
    WeekStart,
)
from hedgerow.projects.store import NewProject, ProjectStore
from hedgerow.projects.validation import validate_text

MAX_NAME_CHARS = 200
MAX_GRACE_S = 90 * 24 * 3600
MAX_RETENTION_DAYS = 36_500
# Every process has seen a change after this time.
PROPAGATION_S = 2 * POLL_INTERVAL_S


def generate_project_token() -> str:
    return generate_token(PROJECT_KEY_PREFIX, KEY_BITS)


class Unchanged(Enum):
    """The default of a field that a change leaves as it is."""

    KEEP = "keep"


UNCHANGED: Final = Unchanged.KEEP


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectFields:
    """The fields that can be changed. A `retention_days` of None keeps events forever."""

    name: str | Unchanged = UNCHANGED
    timezone: str | Unchanged = UNCHANGED
    retention_days: int | Unchanged | None = UNCHANGED
    test_account_filters: Sequence[Mapping[str, Any]] | Unchanged = UNCHANGED
    schema_mode: SchemaMode | Unchanged = UNCHANGED
    week_start_day: WeekStart | Unchanged = UNCHANGED


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuedSecret:
    """A project with the value of its new secret key, which cannot be read later."""

    project: Project
    value: str


class Projects:
    """Changes projects, and refreshes the directory of this process."""

    def __init__(self, store: ProjectStore, directory: Directory) -> None:
        self._store = store
        self._directory = directory

    async def create(
        self,
        name: str,
        timezone: str,
        actor: Actor,
        now: datetime,
        week_start_day: WeekStart = WeekStart.SUNDAY,
    ) -> Project:
        _check_timezone(timezone)
        name = validate_text("name", name, MAX_NAME_CHARS)
        new = NewProject(
            name=name,
            timezone=timezone,
            api_token=generate_project_token(),
            week_start_day=week_start_day,
        )
        project = await self._store.add_project(new, actor, now)
        await self._directory.refresh()
        return project

    async def change(
        self, id: ProjectId, fields: ProjectFields, actor: Actor, now: datetime
    ) -> Project:
        changes = {name: value for name, value in asdict(fields).items() if value is not UNCHANGED}
        if "timezone" in changes:
            _check_timezone(changes["timezone"])
        if "name" in changes:
            changes["name"] = validate_text("name", changes["name"], MAX_NAME_CHARS)

        def edit(project: Project) -> Project:
            return replace(project, **changes)

        project = await self._store.edit_project(id, edit, actor, now)
        await self._directory.refresh()
        return project

    async def rotate_token(
        self, id: ProjectId, grace: timedelta, actor: Actor, now: datetime
    ) -> Project:
        """Replace the public token. The old one works until the grace period ends."""
        project = await self._store.rotate_token(
            id, generate_project_token(), now + grace, actor, now
        )
        await self._directory.refresh()
        return project

    async def rotate_secret(self, id: ProjectId, actor: Actor, now: datetime) -> IssuedSecret:
        """Create a new secret key. The previous one works until it is dropped or until the next
        rotation."""
        value = generate_token(SECRET_KEY_PREFIX, KEY_BITS)
        secret = SecretKey(hash=hash_token(value), mask=mask_token(value))
        project = await self._store.rotate_secret(id, secret, actor, now)
        await self._directory.refresh()
        return IssuedSecret(project=project, value=value)

    async def drop_backup_secret(self, id: ProjectId, actor: Actor, now: datetime) -> Project:
        """Revoke the secret key from before the last rotation."""
        project = await self._store.drop_backup_secret(id, actor, now)
        await self._directory.refresh()
        return project

    async def delete(self, id: ProjectId, actor: Actor, now: datetime) -> None:
        """Delete a project. When this returns, no process knows it any more. Its data is deleted
        after: see `projects/deletion.py`."""
        await self._store.delete_project(id, actor, now)
        await self._directory.refresh()
        await asyncio.sleep(PROPAGATION_S)


@cache
def _valid_timezones() -> frozenset[str]:
    # "localtime" depends on the machine.
    return frozenset(available_timezones() - {"localtime"})


def _check_timezone(name: str) -> None:
    if name not in _valid_timezones():
        raise Invalid(f'"{name}" is not a valid choice.', attr="timezone", code="invalid_choice")
