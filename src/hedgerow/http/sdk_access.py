"""What SDKs on servers may ask for with a secret key of their project, or with a personal key.

A secret key opens its own project. With a personal key, the project is the one in the path, else
that of the public key in `token`, else the first that the key may see.
"""

import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

from fastapi import Depends
from starlette.requests import Request
from starlette.types import Scope

from hedgerow.errors import AuthenticationFailed, Forbidden, NotAuthenticated
from hedgerow.http.access import (
    CURRENT,
    Allow,
    Rooms,
    check_accept,
    check_scope,
    check_sight,
    known_or_new,
    project_named,
)
from hedgerow.http.project_key import project_of
from hedgerow.http.request_headers import bearer
from hedgerow.http.trace import Trace, trace_of
from hedgerow.projects.directory import Directory
from hedgerow.projects.model import SECRET_KEY_PREFIX, KeyId, Project
from hedgerow.projects.throttle import Throttle

SCOPE = "feature_flag:read"


@dataclass(frozen=True, slots=True, kw_only=True)
class SdkCall:
    """A request of an SDK that may go ahead."""

    request: Request
    rooms: Rooms
    project: Project


@dataclass(frozen=True, slots=True)
class AllowSdk(Allow):
    """Like Allow, and a secret key of the project will do."""

    async def __call__(self, request: Request) -> SdkCall:  # type: ignore[override]
        rooms: Rooms = request.app.state.rooms
        check_accept(request, self.also)
        trace = trace_of(request.scope)
        project = await sdk_project(
            request.scope, rooms.directory, trace, request.path_params["project_id"]
        )
        admit(rooms.sdk_throttle, project)
        trace.mark("access")
        return SdkCall(request=request, rooms=rooms, project=project)


def for_sdks(*, also: str = "") -> Any:
    """For paths with {project_id}: gives an SdkCall."""
    return Depends(AllowSdk(SCOPE, projects=True, restricted_keys=True, also=also))


def admit(throttle: Throttle, project: Project) -> None:
    throttle.admit(KeyId(f"project {project.id}"), time.monotonic())


async def sdk_project(
    scope: Scope, directory: Directory, trace: Trace, named: str = CURRENT
) -> Project:
    """The project that is asked for, if the key opens it. `named` is the one in the path."""
    asked = parse_qs(scope["query_string"][:2000].decode("latin-1"))
    token = asked.get("token", [""])[-1]
    value = bearer(scope) or asked.get("personal_api_key", [""])[-1]
    if not value:
        raise NotAuthenticated
    if value.startswith(SECRET_KEY_PREFIX):
        project = await _of_secret(value, directory, named, token)
    else:
        project = await _of_personal_key(value, directory, trace, named, token)
    trace.project_id = project.id
    return project


async def _of_secret(value: str, directory: Directory, named: str, token: str) -> Project:
    project = await known_or_new(value, directory.find_secret, directory.find_new_secret)
    if project is None:
        raise AuthenticationFailed(
            "Project secret API key is invalid. It may have been rotated: "
            "PATCH /api/projects/:id/rotate_secret_token/ makes a new one."
        )
    if token and (await project_of(directory, token)).id != project.id:
        raise AuthenticationFailed("The secret key and the project key are of different projects.")
    if named != CURRENT and named != str(project.id):
        raise Forbidden("This secret key is of another project.")
    return project


async def _of_personal_key(
    value: str, directory: Directory, trace: Trace, named: str, token: str
) -> Project:
    key = await known_or_new(value, directory.find_key, directory.find_new_key)
    if key is None:
        raise AuthenticationFailed("Personal API key found in request is invalid.")
    trace.key_id = key.id
    if token and named == CURRENT:
        project = await project_of(directory, token)
        check_sight(key, project)
    else:
        project = await project_named(named, key, directory)
    check_scope(key, SCOPE)
    return project
