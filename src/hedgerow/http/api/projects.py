"""Projects, under `/api/projects/` and its alias `/api/environments/`."""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import timedelta
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo

import msgspec
from annotated_types import MaxLen
from starlette.responses import Response

from hedgerow.errors import NotFound
from hedgerow.events.filters.compiler import COHORT_TYPES, FilterCompiler
from hedgerow.events.filters.conditions import QueryTime
from hedgerow.filters.known_fields import EVENT_FILTER
from hedgerow.hogql.parser.parse import parse_expr
from hedgerow.http.auth.access import anywhere, in_project, recently
from hedgerow.http.call import Call, ProjectCall
from hedgerow.http.endpoint import endpoint, project_paths
from hedgerow.http.paging import PAGE_PARAMETERS, Page
from hedgerow.http.parameters import DELETION_STATUS, Parameter, parse_deletion_status
from hedgerow.http.payload.fields import OMITTED, Between, Fields, Text
from hedgerow.http.server.response import JsonResponse, no_content
from hedgerow.lib.clock import format_iso
from hedgerow.projects.deletion import ProjectDeletion, ProjectDeletions
from hedgerow.projects.directory import Directory
from hedgerow.projects.model import Project, ProjectId, SchemaMode, WeekStart
from hedgerow.projects.projects import (
    MAX_GRACE_S,
    MAX_NAME_CHARS,
    MAX_RETENTION_DAYS,
    ProjectFields,
    Projects,
)
from hedgerow.projects.validation import check_known_fields, check_storable

ORGANIZATION = "/api/organizations/{organization_id}/"
# PostHog's Terraform provider names projects below their organization.
PROJECT_PATHS = (*project_paths(""), f"{ORGANIZATION}projects/{{project_id}}/")
PATHS = ("/api/projects/", "/api/environments/", f"{ORGANIZATION}projects/")

MAX_TEST_ACCOUNT_FILTERS = 50
SEARCH = Parameter("search", "Only projects whose name contains this text.")

Name = Annotated[str, Text(MAX_NAME_CHARS)]
Timezone = Annotated[str, Text(64)]
TestAccountFilters = Annotated[list[dict[str, Any]], MaxLen(MAX_TEST_ACCOUNT_FILTERS)]


class ProjectItem(msgspec.Struct, kw_only=True):
    """A project in lists. Fields that Hedgerow does not use have PostHog's default value."""

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
    """A project with all its fields."""

    retention_days: int | None
    test_account_filters: Sequence[Mapping[str, Any]]
    schema_mode: str
    week_start_day: int
    created_at: str
    updated_at: str


class ProjectSecrets(ProjectDetail, kw_only=True):
    """A project with its secret API keys. Only the response that creates a key contains its value;
    later responses show a mask."""

    secret_api_token: str | None
    secret_api_token_mask: str | None
    secret_api_token_backup_mask: str | None


class ProjectDeletionItem(msgspec.Struct, kw_only=True):
    """A deleted project. `delete_verified_at` is when no table and no file contained its data any
    more; the status is `pending` until then. `events_deleted` is null until they are counted."""

    project_id: int
    name: str
    status: Literal["pending", "completed"]
    created_at: str
    delete_verified_at: str | None
    rows_deleted: int
    events_deleted: int | None


class NewProjectBody(Fields):
    """`week_start_day` is 0 for Sunday, 1 for Monday."""

    name: Name = "Default project"
    timezone: Timezone = "UTC"
    week_start_day: Annotated[int, Between(0, 1)] = 0


class ProjectChange(Fields):
    """`retention_days` is the number of days to keep events; null keeps them forever.
    `test_account_filters` are the property filters that the events of real users match; queries
    with `filterTestAccounts` apply them. `schema_mode` is what happens to events that break their
    schema, unless their definition says it. `week_start_day` is 0 for Sunday, 1 for Monday."""

    name: Name = OMITTED
    timezone: Timezone = OMITTED
    retention_days: Annotated[int, Between(1, MAX_RETENTION_DAYS)] | None = None
    test_account_filters: TestAccountFilters = OMITTED
    schema_mode: SchemaMode = OMITTED
    week_start_day: Annotated[int, Between(0, 1)] = OMITTED


class TokenRotation(Fields):
    """`grace_s` is how many seconds the old public key stays valid. 0, the default, revokes it
    immediately."""

    grace_s: Annotated[int, Between(0, MAX_GRACE_S)] = 0


def check_organization(call: Call) -> None:
    """Raise NotFound if the path names another organization: an installation has one."""
    id = call.request.path_params.get("organization_id", "@current")
    if id not in ("@current", call.owner.organization.id):
        raise NotFound("Organization not found.")


def _common_fields(project: Project) -> dict[str, Any]:
    return {
        "id": project.id,
        "uuid": project.uuid,
        "organization": project.organization_id,
        "project_id": project.id,
        "api_token": project.api_token,
        "name": project.name,
        "timezone": project.timezone,
    }


def render_project(project: Project) -> ProjectItem:
    return ProjectItem(**_common_fields(project))


def _detail_fields(project: Project) -> dict[str, Any]:
    return _common_fields(project) | {
        "retention_days": project.retention_days,
        "test_account_filters": project.test_account_filters,
        "schema_mode": project.schema_mode.value,
        "week_start_day": project.week_start_day.value,
        "created_at": format_iso(project.created_at),
        "updated_at": format_iso(project.updated_at),
    }


def _render_detail(project: Project) -> ProjectDetail:
    return ProjectDetail(**_detail_fields(project))


def _render_secrets(project: Project, value: str | None = None) -> ProjectSecrets:
    return ProjectSecrets(
        **_detail_fields(project),
        secret_api_token=value,
        secret_api_token_mask=project.secret_mask or None,
        secret_api_token_backup_mask=project.backup_secret_mask or None,
    )


def _render_deletion(deletion: ProjectDeletion) -> ProjectDeletionItem:
    purged_at = deletion.purged_at
    return ProjectDeletionItem(
        project_id=deletion.project_id,
        name=deletion.name,
        status="completed" if purged_at else "pending",
        created_at=format_iso(deletion.requested_at),
        delete_verified_at=format_iso(purged_at) if purged_at else None,
        rows_deleted=deletion.rows_deleted,
        events_deleted=deletion.events_deleted,
    )


def _check_filters(filters: Sequence[Mapping[str, Any]], call: ProjectCall) -> None:
    """Raise Invalid for filters that no query could use. Cohorts may be created later."""
    attr = "test_account_filters"
    check_storable(filters, attr)
    check_known_fields(filters, EVENT_FILTER, attr)
    time = QueryTime(now=call.now, zone=ZoneInfo(call.project.timezone))
    others = [each for each in filters if each.get("type") not in COHORT_TYPES]
    FilterCompiler(time, {}, parse_expr).compile(others, attr)


class ProjectEndpoints:
    tag = "Projects"

    def __init__(
        self,
        directory: Directory,
        projects: Projects,
        deletions: ProjectDeletions,
        count_events: Callable[[ProjectId], Coroutine[Any, Any, int]],
    ) -> None:
        self._directory = directory
        self._projects = projects
        self._deletions = deletions
        self._count_events = count_events

    @endpoint(
        "GET",
        *PATHS,
        access=anywhere("project:read", restricted_keys=True),
        response=Page[ProjectItem],
        query=(*PAGE_PARAMETERS, SEARCH),
    )
    async def list_projects(self, call: Call) -> Response:
        """List the projects that the caller can access, oldest first."""
        check_organization(call)
        wanted = (call.query_param("search") or "").strip().casefold()
        visible = [
            each
            for each in self._directory.list_projects_for(call.caller)
            if wanted in each.name.casefold()
        ]
        window = call.window
        items = [render_project(project) for project in window.of(visible)]
        return JsonResponse(call.page(len(visible), items))

    @endpoint(
        "POST",
        *PATHS,
        access=anywhere("project:write"),
        response=ProjectDetail,
        status=201,
        body=NewProjectBody,
    )
    async def create_project(self, call: Call) -> Response:
        """Create a project. The response contains its public key."""
        check_organization(call)
        fields = await call.body(NewProjectBody)
        week_start_day = WeekStart(fields.week_start_day)
        project = await self._projects.create(
            fields.name, fields.timezone, call.actor, call.now, week_start_day
        )
        return JsonResponse(_render_detail(project), status_code=201)

    @endpoint(
        "GET",
        *PROJECT_PATHS,
        access=in_project("project:read"),
        response=ProjectDetail,
    )
    async def retrieve_project(self, call: ProjectCall) -> Response:
        """Retrieve a project. `@current` is the first project that the key can access."""
        check_organization(call)
        return JsonResponse(_render_detail(call.project))

    @endpoint(
        "PATCH",
        *PROJECT_PATHS,
        access=in_project("project:write"),
        response=ProjectDetail,
        body=ProjectChange,
    )
    async def change_project(self, call: ProjectCall) -> Response:
        """Update the name, time zone, event retention and other choices of a project."""
        check_organization(call)
        body = await call.body(ProjectChange)
        if "test_account_filters" in body.model_fields_set:
            _check_filters(body.test_account_filters, call)
        sent = {name: getattr(body, name) for name in body.model_fields_set}
        if "week_start_day" in sent:
            sent["week_start_day"] = WeekStart(sent["week_start_day"])
        fields = ProjectFields(**sent)
        project = await self._projects.change(call.project.id, fields, call.actor, call.now)
        return JsonResponse(_render_detail(project))

    @endpoint(
        "DELETE",
        *PROJECT_PATHS,
        access=in_project("project:write"),
        response=None,
        status=204,
    )
    async def delete_project(self, call: ProjectCall) -> Response:
        """Delete a project with all its data. Its keys are refused from now on; the data is gone
        from the disk soon: see `/api/project_deletions/`. The only project cannot be deleted."""
        check_organization(call)
        await self._projects.delete(call.project.id, call.actor, call.now)
        return no_content()

    @endpoint(
        "GET",
        *project_paths("contents/"),
        access=in_project("project:read"),
        response=dict[str, int],
    )
    async def count_contents(self, call: ProjectCall) -> Response:
        """Count what the deletion of the project would delete, by its name: events, flags and so
        on."""
        project_id = call.project.id
        events = await call.while_connected(self._count_events(project_id))
        return JsonResponse({"events": events, **await self._deletions.count_rows(project_id)})

    @endpoint(
        "GET",
        *project_paths("secret_tokens/"),
        access=in_project("project:read"),
        response=ProjectSecrets,
    )
    async def retrieve_secret_tokens(self, call: ProjectCall) -> Response:
        """Retrieve a project with the masks of its secret API keys."""
        return JsonResponse(_render_secrets(call.project))

    @endpoint(
        "GET",
        "/api/project_deletions/",
        access=anywhere("project:read"),
        response=Page[ProjectDeletionItem],
        query=(*PAGE_PARAMETERS, DELETION_STATUS),
    )
    async def list_deletions(self, call: Call) -> Response:
        """List deleted projects, newest first, with whether their data is gone from the disk."""
        window = call.window
        found, count = await self._deletions.list_deletions(
            is_purged=parse_deletion_status(call.query_param("status")),
            limit=window.limit,
            offset=window.offset,
        )
        return JsonResponse(call.page(count, [_render_deletion(each) for each in found]))

    @endpoint(
        "PATCH",
        *project_paths("reset_token/"),
        access=recently(in_project("project:write")),
        response=ProjectDetail,
        body=TokenRotation,
    )
    async def reset_token(self, call: ProjectCall) -> Response:
        """Replace the public key of a project. The old key stays valid for `grace_s` seconds."""
        fields = await call.body(TokenRotation)
        project = await self._projects.rotate_token(
            call.project.id, timedelta(seconds=fields.grace_s), call.actor, call.now
        )
        return JsonResponse(_render_detail(project))

    @endpoint(
        "PATCH",
        *project_paths("rotate_secret_token/"),
        access=recently(in_project("project:write")),
        response=ProjectSecrets,
    )
    async def rotate_secret_token(self, call: ProjectCall) -> Response:
        """Create a new secret API key. The previous key stays valid until you delete it or rotate
        again."""
        issued = await self._projects.rotate_secret(call.project.id, call.actor, call.now)
        return JsonResponse(_render_secrets(issued.project, issued.value))

    @endpoint(
        "PATCH",
        *project_paths("delete_secret_token_backup/"),
        access=recently(in_project("project:write")),
        response=ProjectSecrets,
    )
    async def delete_secret_token_backup(self, call: ProjectCall) -> Response:
        """Revoke the secret API key from before the last rotation."""
        project = await self._projects.drop_backup_secret(call.project.id, call.actor, call.now)
        return JsonResponse(_render_secrets(project))
