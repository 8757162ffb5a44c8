"""Public keys of projects (`phc_…`), and the project that a key opens."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs

from starlette.types import Scope

from hedgerow.errors import AppError
from hedgerow.projects.directory import Directory
from hedgerow.projects.model import Project


class MissingProjectKey(AppError):
    """The request has no project key."""

    status, type, code = 401, "authentication_error", "no_api_key"
    default_detail = (
        "Project API key not provided: send it as api_key. `hedgerow projects list` shows it."
    )


class InvalidProjectKey(AppError):
    """The project key is unknown."""

    status, type, code = 401, "authentication_error", "invalid_api_key"
    default_detail = "Project API key invalid. `hedgerow projects list` shows the keys."


def parse_query(scope: Scope) -> dict[str, list[str]]:
    return parse_qs(scope["query_string"][:2000].decode("latin-1"))


async def find_project_in_query(directory: Directory, query: Mapping[str, list[str]]) -> Project:
    token = (query.get("token") or query.get("api_key") or [""])[-1]
    if not token:
        raise MissingProjectKey(
            "Project API key not provided: send it as the parameter token. "
            "`hedgerow projects list` shows it.",
            code="missing_api_key",
        )
    return await find_project_by_token(directory, token)


async def find_project_by_token(directory: Directory, token: Any) -> Project:
    if not token:
        raise MissingProjectKey
    if not isinstance(token, str):
        raise InvalidProjectKey
    project = directory.find_token(token) or await directory.find_new_token(token)
    if project is None:
        raise InvalidProjectKey
    return project
