"""`/api/projects/` and its alias `/api/environments/`: list, create, retrieve, change, rotate the
public key.
"""

from datetime import timedelta
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter
from starlette.responses import Response

from hedgerow.http.access import Call, ProjectCall, anywhere, in_project
from hedgerow.http.describe import describes
from hedgerow.http.fields import LEFT_OUT, Between, Fields, Text
from hedgerow.http.paging import WINDOW, Page, page
from hedgerow.http.reply import JsonResponse
from hedgerow.lib.clock import iso
from hedgerow.projects.model import Project
from hedgerow.projects.projects import (
    GRACE_MAX_S,
    NAME_MAX,
    RETENTION_MAX_DAYS,
    ProjectFields,
)

router = APIRouter(tags=["Projects"])

Name = Annotated[str, Text(NAME_MAX)]
Timezone = Annotated[str, Text(64)]


class ProjectItem(msgspec.Struct, kw_only=True):
    """A project as it stands in lists. Fields without meaning here keep PostHog's neutral value."""

    id: int
    uuid: str
    organization: str
    project_id: int
    api_token: str
    name: str
    completed_snippet_onboarding: bool = True
    has_completed_onboarding_for: dict[str, bool] = {}
    ingested_event: bool = False
    is_demo: bool = False
    timezone: str
    access_control: bool = False


class ProjectDetail(ProjectItem, kw_only=True):
    """A project with everything that can be known or set."""

    retention_days: int | None
    created_at: str
    updated_at: str


class ProjectSecrets(ProjectDetail, kw_only=True):
    """A project with its secret keys: the value is in the answer that makes it and nowhere else,
    the masks tell keys apart."""

    secret_api_token: str | None
    secret_api_token_mask: str | None
    secret_api_token_backup_mask: str | None


class NewProject(Fields):
    name: Name = "Default project"
    timezone: Timezone = "UTC"


class ProjectChange(Fields):
    """Events are kept for so many days, or for ever if that is null."""

    name: Name = LEFT_OUT
    timezone: Timezone = LEFT_OUT
    retention_days: Annotated[int, Between(1, RETENTION_MAX_DAYS)] | None = None


class TokenRotation(Fields):
    """How long the old public key stays valid. 0, the default, ends it at once."""

    grace_s: Annotated[int, Between(0, GRACE_MAX_S)] = 0


def _facts(project: Project) -> dict[str, Any]:
    return {
        "id": project.id,
        "uuid": project.uuid,
        "organization": project.organization_id,
        "project_id": project.id,
        "api_token": project.api_token,
        "name": project.name,
        "timezone": project.timezone,
    }


def item(project: Project) -> ProjectItem:
    return ProjectItem(**_facts(project))


def _details(project: Project) -> dict[str, Any]:
    return _facts(project) | {
        "retention_days": project.retention_days,
        "created_at": iso(project.created_at),
        "updated_at": iso(project.updated_at),
    }


def detail(project: Project) -> ProjectDetail:
    return ProjectDetail(**_details(project))


def secrets(project: Project, value: str | None = None) -> ProjectSecrets:
    return ProjectSecrets(
        **_details(project),
        secret_api_token=value,
        secret_api_token_mask=project.secret_mask or None,
        secret_api_token_backup_mask=project.backup_secret_mask or None,
    )


@describes(answer=Page[ProjectItem], query=WINDOW)
async def list_projects(
    call: Annotated[Call, anywhere("project:read", restricted_keys=True)],
) -> Response:
    """The projects that the key may see, oldest first."""
    visible = call.rooms.directory.projects_for(call.key)
    asked = call.window
    items = [item(project) for project in asked.of(visible)]
    return JsonResponse(page(call.request, call.rooms.origins, asked, len(visible), items))


@describes(answer=ProjectDetail, status=201, body=NewProject)
async def create_project(call: Annotated[Call, anywhere("project:write")]) -> Response:
    """Make a project; its public key comes with the answer."""
    fields = await call.body(NewProject)
    project = await call.rooms.projects.create(fields.name, fields.timezone, call.actor, call.now)
    return JsonResponse(detail(project), status_code=201)


@describes(answer=ProjectDetail)
async def retrieve_project(call: Annotated[ProjectCall, in_project("project:read")]) -> Response:
    """One project. `@current` stands for the first that the key may see."""
    return JsonResponse(detail(call.project))


@describes(answer=ProjectDetail, body=ProjectChange)
async def change_project(call: Annotated[ProjectCall, in_project("project:write")]) -> Response:
    """Change a project's name, its time zone or how long it keeps events."""
    body = await call.body(ProjectChange)
    fields = ProjectFields(**{name: getattr(body, name) for name in body.model_fields_set})
    project = await call.rooms.projects.change(call.project.id, fields, call.actor, call.now)
    return JsonResponse(detail(project))


@describes(answer=ProjectDetail, body=TokenRotation)
async def reset_token(call: Annotated[ProjectCall, in_project("project:write")]) -> Response:
    """Give the project a new public key. The old one works for `grace_s` more seconds."""
    fields = await call.body(TokenRotation)
    project = await call.rooms.projects.rotate_token(
        call.project.id, timedelta(seconds=fields.grace_s), call.actor, call.now
    )
    return JsonResponse(detail(project))


@describes(answer=ProjectSecrets)
async def rotate_secret_token(
    call: Annotated[ProjectCall, in_project("project:write")],
) -> Response:
    """Give the project a new secret key. The one before works until it is deleted, or until the
    next rotation."""
    issued = await call.rooms.projects.rotate_secret(call.project.id, call.actor, call.now)
    return JsonResponse(secrets(issued.project, issued.value))


@describes(answer=ProjectSecrets)
async def delete_secret_token_backup(
    call: Annotated[ProjectCall, in_project("project:write")],
) -> Response:
    """End the secret key from before the last rotation."""
    project = await call.rooms.projects.drop_backup_secret(call.project.id, call.actor, call.now)
    return JsonResponse(secrets(project))


for base in ("/api/projects/", "/api/environments/"):
    router.get(base)(list_projects)
    router.post(base)(create_project)
    router.get(base + "{project_id}/")(retrieve_project)
    router.patch(base + "{project_id}/")(change_project)
    router.patch(base + "{project_id}/reset_token/")(reset_token)
    router.patch(base + "{project_id}/rotate_secret_token/")(rotate_secret_token)
    router.patch(base + "{project_id}/delete_secret_token_backup/")(delete_secret_token_backup)
