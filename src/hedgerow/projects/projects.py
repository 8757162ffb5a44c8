"""Projects: make, change, and rotate their public key."""

from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from enum import Enum
from functools import cache
from typing import Final
from zoneinfo import available_timezones

from hedgerow.errors import Invalid
from hedgerow.lib.tokens import random_token, token_hash, token_mask
from hedgerow.projects.activity import Actor
from hedgerow.projects.directory import Directory
from hedgerow.projects.model import (
    KEY_BITS,
    PROJECT_KEY_PREFIX,
    SECRET_KEY_PREFIX,
    Project,
    ProjectId,
    SecretKey,
)
from hedgerow.projects.store import NewProject, ProjectStore
from hedgerow.projects.text import checked_text

NAME_MAX = 200
GRACE_MAX_S = 90 * 24 * 3600
RETENTION_MAX_DAYS = 36_500


def new_project_token() -> str:
    return random_token(PROJECT_KEY_PREFIX, KEY_BITS)


class Keep(Enum):
    """Stands for a field that stays as it is."""

    KEEP = "keep"


KEEP: Final = Keep.KEEP


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectFields:
    """What may be changed of a project. Events are kept for ever where `retention_days` is None."""

    name: str | Keep = KEEP
    timezone: str | Keep = KEEP
    retention_days: int | Keep | None = KEEP


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuedSecret:
    """A project with the value of its new secret key, which can be read at this moment only."""

    project: Project
    value: str


class Projects:
    """Changes of projects, each followed by a fresh look of this process's directory."""

    def __init__(self, store: ProjectStore, directory: Directory) -> None:
        self._store = store
        self._directory = directory

    async def create(self, name: str, timezone: str, actor: Actor, now: datetime) -> Project:
        _check_timezone(timezone)
        name = checked_text("name", name, NAME_MAX)
        new = NewProject(name=name, timezone=timezone, api_token=new_project_token())
        project = await self._store.add_project(new, actor, now)
        await self._directory.refresh()
        return project

    async def change(
        self, id: ProjectId, fields: ProjectFields, actor: Actor, now: datetime
    ) -> Project:
        changes = {name: value for name, value in asdict(fields).items() if value is not KEEP}
        if "timezone" in changes:
            _check_timezone(changes["timezone"])
        if "name" in changes:
            changes["name"] = checked_text("name", changes["name"], NAME_MAX)

        def edit(project: Project) -> Project:
            return replace(project, **changes)

        project = await self._store.edit_project(id, edit, actor, now)
        await self._directory.refresh()
        return project

    async def rotate_token(
        self, id: ProjectId, grace: timedelta, actor: Actor, now: datetime
    ) -> Project:
        """Give the project a new public key; the old one works until the grace time is over."""
        project = await self._store.rotate_token(id, new_project_token(), now + grace, actor, now)
        await self._directory.refresh()
        return project

    async def rotate_secret(self, id: ProjectId, actor: Actor, now: datetime) -> IssuedSecret:
        """Give the project a new secret key. The one before is good until it is dropped, or until
        the next rotation."""
        value = random_token(SECRET_KEY_PREFIX, KEY_BITS)
        secret = SecretKey(hash=token_hash(value), mask=token_mask(value))
        project = await self._store.rotate_secret(id, secret, actor, now)
        await self._directory.refresh()
        return IssuedSecret(project=project, value=value)

    async def drop_backup_secret(self, id: ProjectId, actor: Actor, now: datetime) -> Project:
        """End the secret key from before the last rotation."""
        project = await self._store.drop_backup_secret(id, actor, now)
        await self._directory.refresh()
        return project


@cache
def _timezones() -> frozenset[str]:
    # "localtime" is this machine's own, and means something else on the next.
    return frozenset(available_timezones() - {"localtime"})


def _check_timezone(name: str) -> None:
    if name not in _timezones():
        raise Invalid(f'"{name}" is not a valid choice.', attr="timezone", code="invalid_choice")
