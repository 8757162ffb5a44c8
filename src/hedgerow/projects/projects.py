"""Projects: make, change, and rotate their public key."""

from dataclasses import replace
from datetime import datetime, timedelta
from functools import cache
from zoneinfo import available_timezones

from hedgerow.errors import Invalid
from hedgerow.kit.tokens import random_token
from hedgerow.projects.activity import Actor
from hedgerow.projects.directory import Directory
from hedgerow.projects.model import KEY_BITS, PROJECT_KEY_PREFIX, Project, ProjectId
from hedgerow.projects.store import NewProject, ProjectStore
from hedgerow.projects.text import checked_text

NAME_MAX = 200
GRACE_MAX_S = 90 * 24 * 3600


def new_project_token() -> str:
    return random_token(PROJECT_KEY_PREFIX, KEY_BITS)


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
        self,
        id: ProjectId,
        *,
        name: str | None,
        timezone: str | None,
        actor: Actor,
        now: datetime,
    ) -> Project:
        if timezone is not None:
            _check_timezone(timezone)
        if name is not None:
            name = checked_text("name", name, NAME_MAX)

        def edit(project: Project) -> Project:
            return replace(
                project,
                name=project.name if name is None else name,
                timezone=project.timezone if timezone is None else timezone,
            )

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


@cache
def _timezones() -> frozenset[str]:
    # "localtime" is this machine's own, and means something else on the next.
    return frozenset(available_timezones() - {"localtime"})


def _check_timezone(name: str) -> None:
    if name not in _timezones():
        raise Invalid(f'"{name}" is not a valid choice.', attr="timezone", code="invalid_choice")
