"""Personal keys (`phx_…`): which project a key opens, and what its scopes allow."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from hedgerow.errors import Forbidden, NotFound
from hedgerow.http.payload.fields import INT64_MAX
from hedgerow.projects.directory import Directory
from hedgerow.projects.model import PersonalKey, Project, ProjectId
from hedgerow.projects.scopes import ALL_SCOPES, is_allowed

T = TypeVar("T")

CURRENT = "@current"
NO_KEY_ACCESS = "This action does not support Personal API Key access"


async def find_cached_or_stored(
    value: Any, cached: Callable[[Any], T | None], stored: Callable[[Any], Awaitable[T | None]]
) -> T | None:
    """Look in memory first, then in the database: another process may have just added it."""
    found = cached(value)
    return found if found is not None else await stored(value)


async def find_key(value: str, directory: Directory) -> PersonalKey | None:
    return await find_cached_or_stored(value, directory.find_key, directory.find_new_key)


async def find_project(id: str, key: PersonalKey, directory: Directory) -> Project:
    """Return the project with this id, or the key's first one for `@current`."""
    project: Project | None = None
    if id == CURRENT:
        project = next(iter(directory.list_projects_for(key)), None)
    elif id.isascii() and id.isdecimal() and (number := int(id[:30])) <= INT64_MAX:
        project = await find_cached_or_stored(
            ProjectId(number), directory.get_project, directory.find_new_project
        )
    if project is None:
        raise NotFound("Project not found.")
    check_project_access(key, project)
    return project


def check_project_access(key: PersonalKey, project: Project) -> None:
    if not key.may_see(project.id):
        raise Forbidden(f"API key does not have access to the requested project: ID {project.id}.")


def check_scope(key: PersonalKey, scope: str) -> None:
    """An empty `scope` accepts every key."""
    if not scope or is_allowed(key.scopes, scope):
        return
    if scope == ALL_SCOPES:
        raise Forbidden(NO_KEY_ACCESS)
    raise Forbidden(f"API key missing required scope '{scope}'")
