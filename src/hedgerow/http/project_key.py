"""The public key that comes with a request, and the project that it opens."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs

from starlette.types import Scope

from hedgerow.errors import AppError
from hedgerow.projects.directory import Directory
from hedgerow.projects.model import Project


class NoProjectKey(AppError):
    """No project key came with the request."""

    status, type, code = 401, "authentication_error", "no_api_key"
    default_detail = (
        "Project API key not provided: send it as api_key. `hedgerow projects list` shows it."
    )


class BadProjectKey(AppError):
    """A project key came that opens no project."""

    status, type, code = 401, "authentication_error", "invalid_api_key"
    default_detail = "Project API key invalid. `hedgerow projects list` shows the keys."


def asked_by_page(scope: Scope) -> dict[str, list[str]]:
    return parse_qs(scope["query_string"][:2000].decode("latin-1"))


async def project_of_page(directory: Directory, asked: Mapping[str, list[str]]) -> Project:
    token = (asked.get("token") or asked.get("api_key") or [""])[-1]
    if not token:
        raise NoProjectKey(
            "Project API key not provided: send it as the parameter token. "
            "`hedgerow projects list` shows it.",
            code="missing_api_key",
        )
    return await project_of(directory, token)


async def project_of(directory: Directory, token: Any) -> Project:
    if not token:
        raise NoProjectKey
    if not isinstance(token, str):
        raise BadProjectKey
    project = directory.find_token(token) or await directory.find_new_token(token)
    if project is None:
        raise BadProjectKey
    return project
