"""Keys of server-side SDKs: a secret key of the project (`phs_…`) or a personal key.

A secret key opens its own project. With a personal key, the project is the one in the path, else
that of the public key in `token`, else the first that the key can access.
"""

import time
from urllib.parse import parse_qs

from starlette.types import Scope

from hedgerow.errors import AuthenticationFailed, Forbidden, NotAuthenticated
from hedgerow.http.auth.personal_key import (
    CURRENT,
    check_project_access,
    check_scope,
    find_cached_or_stored,
    find_caller,
    find_project,
)
from hedgerow.http.auth.project_key import find_project_by_token
from hedgerow.http.server.headers import read_bearer
from hedgerow.http.server.trace import Trace
from hedgerow.projects.directory import Directory
from hedgerow.projects.model import SECRET_KEY_PREFIX, KeyId, Project
from hedgerow.projects.rate_limit import RateLimiter

SCOPE = "feature_flag:read"


def admit_project(throttle: RateLimiter, project: Project) -> None:
    throttle.admit(KeyId(f"project {project.id}"), time.monotonic())


async def find_sdk_project(
    scope: Scope, directory: Directory, trace: Trace, project_id: str = CURRENT
) -> Project:
    """Return the project that the key opens. `project_id` is the one in the path, if any."""
    query = parse_qs(scope["query_string"][:2000].decode("latin-1"))
    token = query.get("token", [""])[-1]
    value = read_bearer(scope) or query.get("personal_api_key", [""])[-1]
    if not value:
        raise NotAuthenticated
    if value.startswith(SECRET_KEY_PREFIX):
        project = await _find_by_secret_key(value, directory, project_id, token)
    else:
        project = await _find_by_personal_key(value, directory, trace, project_id, token)
    trace.project_id = project.id
    return project


async def check_key_of_project(value: str, directory: Directory, project: Project) -> None:
    """Raises NotAuthenticated or Forbidden if this is no key for SDKs of the project."""
    if value.startswith(SECRET_KEY_PREFIX):
        found = await _find_secret(value, directory)
        if found is None or found.id != project.id:
            raise AuthenticationFailed
        return
    caller = await find_caller(value, directory)
    if caller is None:
        raise AuthenticationFailed
    check_project_access(caller, project)
    check_scope(caller, SCOPE, project)


async def _find_secret(value: str, directory: Directory) -> Project | None:
    return await find_cached_or_stored(value, directory.find_secret, directory.find_new_secret)


async def _find_by_secret_key(
    value: str, directory: Directory, project_id: str, token: str
) -> Project:
    project = await _find_secret(value, directory)
    if project is None:
        raise AuthenticationFailed(
            "Project secret API key is invalid. It may have been rotated: "
            "PATCH /api/projects/:id/rotate_secret_token/ makes a new one."
        )
    if token and (await find_project_by_token(directory, token)).id != project.id:
        raise AuthenticationFailed("The secret key and the project key are of different projects.")
    if project_id not in (CURRENT, str(project.id)):
        raise Forbidden("This secret key is of another project.")
    return project


async def _find_by_personal_key(
    value: str, directory: Directory, trace: Trace, project_id: str, token: str
) -> Project:
    caller = await find_caller(value, directory)
    if caller is None:
        raise AuthenticationFailed("Personal API key found in request is invalid.")
    trace.key_id = caller.id
    if token and project_id == CURRENT:
        project = await find_project_by_token(directory, token)
        check_project_access(caller, project)
    else:
        project = await find_project(project_id, caller, directory)
    check_scope(caller, SCOPE, project)
    return project
