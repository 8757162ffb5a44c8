"""Callers: which project a personal key (`phx_…`) or a session opens, and what it may do."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from hedgerow.errors import Forbidden, NotFound
from hedgerow.http.payload.fields import INT64_MAX
from hedgerow.projects.caller import Caller
from hedgerow.projects.directory import Directory
from hedgerow.projects.model import Project, ProjectId
from hedgerow.projects.scopes import ALL_SCOPES

T = TypeVar("T")

CURRENT = "@current"
NO_KEY_ACCESS = "This action does not support Personal API Key access"


async def find_cached_or_stored(
    value: Any, cached: Callable[[Any], T | None], stored: Callable[[Any], Awaitable[T | None]]
) -> T | None:
    """Look in memory first, then in the database: another process may have just added it."""
    found = cached(value)
    return found if found is not None else await stored(value)


async def find_caller(value: str, directory: Directory) -> Caller | None:
    """Return the caller with this personal key."""
    key = await find_cached_or_stored(value, directory.find_key, directory.find_new_key)
    return None if key is None else directory.identify_key(key)


async def find_project(id: str, caller: Caller, directory: Directory) -> Project:
    """Return the project with this id, or the caller's first one for `@current`."""
    project: Project | None = None
    if id == CURRENT:
        project = next(iter(directory.list_projects_for(caller)), None)
    elif id.isascii() and id.isdecimal() and (number := int(id[:30])) <= INT64_MAX:
        project = await find_cached_or_stored(
            ProjectId(number), directory.get_project, directory.find_new_project
        )
    if project is None:
        raise NotFound("Project not found.")
    check_project_access(caller, project)
    return project


def check_project_access(caller: Caller, project: Project) -> None:
    match caller.find_lack_of_sight(project.id):
        case "scope":
            raise Forbidden(
                f"API key does not have access to the requested project: ID {project.id}."
            )
        case "role":
            raise Forbidden(
                f"You have no role in the project with the ID {project.id}. Ask an owner of the "
                "organization for one."
            )


def check_scope(caller: Caller, scope: str, project: Project | None = None) -> None:
    """An empty `scope` accepts every caller."""
    match caller.find_lack(scope, None if project is None else project.id):
        case "scope":
            if scope == ALL_SCOPES:
                raise Forbidden(NO_KEY_ACCESS)
            raise Forbidden(f"API key missing required scope '{scope}'")
        case "role":
            assert project is not None
            role = caller.user.project_roles[project.id]
            raise Forbidden(
                f"Your role in this project, {role.name}, does not include '{scope}'. Ask an owner "
                "of the organization for another role."
            )
