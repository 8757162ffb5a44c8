"""Flags of all projects of the organization by key, on PostHog's paths.

Evidence: OrganizationFeatureFlagView in PostHog's posthog/api/organization_feature_flag.py.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec
from annotated_types import MaxLen
from starlette.responses import Response

from hedgerow.errors import AppError, Forbidden, Invalid
from hedgerow.flags.environments.copies import FlagCopies, FlagCopy, describe_copy
from hedgerow.flags.environments.promotion_requests import PromotionRequests
from hedgerow.flags.environments.promotions import PromotionRefused
from hedgerow.flags.model import KEY_MAX_CHARS, Flag
from hedgerow.flags.payloads import redact_filters
from hedgerow.flags.schedules.scheduled_changes import ScheduleAuthor
from hedgerow.http.api.environments.access import READ_SCOPE, WRITE_SCOPE, check_may_act, may_act
from hedgerow.http.api.environments.matrix import READ_FLAGS
from hedgerow.http.api.environments.promote import (
    WRITE_FLAGS,
    enter_project,
    finish_promotion_request,
)
from hedgerow.http.api.flags.change_request_items import ChangeRequester, build_author
from hedgerow.http.api.flags.scheduled_changes import request_schedule_approval
from hedgerow.http.api.flags.summary import FlagItem, FlagRenderer
from hedgerow.http.api.people.users import render_user
from hedgerow.http.api.projects import ORGANIZATION, check_organization
from hedgerow.http.call import Call, ProjectCall
from hedgerow.http.endpoint import endpoint
from hedgerow.http.payload.fields import INT64_MAX, Between, Boolean, Fields, Text
from hedgerow.http.server.response import JsonResponse
from hedgerow.lib.clock import format_iso
from hedgerow.projects.directory import Directory
from hedgerow.projects.model import Project, ProjectId

FLAGS = f"{ORGANIZATION}feature_flags/"
MAX_TARGETS = 100
RESERVED = {"copy_flags": "POST"}
# PostHog's words.
NO_FLAG = "Feature flag to copy does not exist."
NO_TARGET = "Target project does not exist."

ProjectNumber = Annotated[int, Between(1, INT64_MAX)]


class OrganizationFlag(msgspec.Struct, kw_only=True):
    """A flag of one project."""

    flag_id: int
    team_id: int
    created_by: Mapping[str, Any] | None
    filters: Any
    created_at: str
    active: bool


class CopyBody(Fields):
    """`copy_schedule` copies the scheduled changes of the flag too."""

    ignored_fields = frozenset()

    feature_flag_key: Annotated[str, Text(KEY_MAX_CHARS)]
    from_project: ProjectNumber
    target_project_ids: Annotated[list[ProjectNumber], MaxLen(MAX_TARGETS)]
    copy_schedule: Boolean = False


class CopyFailure(msgspec.Struct, kw_only=True, omit_defaults=True):
    """`change_request_id` is the change request that waits for the approvals that the copy
    needs."""

    project_id: int
    errors: str
    change_request_id: str | None = None


class CopyResult(msgspec.Struct, kw_only=True):
    """The copied flags, and the projects to which the flag or its schedule was not copied."""

    success: Sequence[FlagItem]
    failed: Sequence[CopyFailure]


class OrganizationFlagEndpoints:
    tag = "Feature flags"

    def __init__(
        self,
        copies: FlagCopies,
        directory: Directory,
        flag_renderer: FlagRenderer,
        requests: PromotionRequests,
        requester: ChangeRequester,
    ) -> None:
        self._copies = copies
        self._directory = directory
        self._flag_renderer = flag_renderer
        self._requests = requests
        self._requester = requester

    @endpoint("GET", FLAGS + "{key}/", access=READ_FLAGS, response=list[OrganizationFlag])
    async def list_organization_flags(self, call: Call) -> Response:
        """List the flags with this key, of all projects whose flags the caller may read."""
        check_organization(call)
        key = call.path_param("key", RESERVED)
        readable = [
            each
            for each in self._directory.list_projects_for(call.caller)
            if may_act(call, each, READ_SCOPE)
        ]
        found = [await self._copies.find(project, key) for project in readable]
        return JsonResponse([_render(call, flag) for flag in found if flag is not None])

    @endpoint(
        "POST",
        FLAGS + "copy_flags/",
        access=WRITE_FLAGS,
        response=CopyResult,
        body=CopyBody,
    )
    async def copy_flags(self, call: Call) -> Response:
        """Copy a flag to other projects. An existing flag with its key is changed. Cohorts are
        found by name, and created where they are missing. Each project is changed as a whole or not
        at all. If a project requires approval, a change request is created there: the response is
        409 for one project, and names the request under `failed` for several."""
        check_organization(call)
        body = await call.body(CopyBody)
        if not body.target_project_ids:
            detail = "This list may not be empty."
            raise Invalid(detail, attr="target_project_ids", code="empty")
        source, flag = await self._find_source(call, body)
        success: list[FlagItem] = []
        failed: list[CopyFailure] = []
        for id in dict.fromkeys(body.target_project_ids):
            try:
                target = self._find_target(call, ProjectId(id))
                item, problem = await self._copy(call, flag, (source, target), body)
            except AppError as error:
                request_id = error.extra.get("change_request_id")
                is_only = len(set(body.target_project_ids)) == 1
                if error.is_server_error or (request_id and is_only):
                    raise  # a database is away, or the copy is a change request now
                failed.append(
                    CopyFailure(project_id=id, errors=error.detail, change_request_id=request_id)
                )
                continue
            success.append(item)
            if problem:
                errors = f"The flag was copied, its schedule was not: {problem}"
                failed.append(CopyFailure(project_id=id, errors=errors))
        return JsonResponse(CopyResult(success=success, failed=failed))

    async def _find_source(self, call: Call, body: CopyBody) -> tuple[Project, Flag]:
        source = self._directory.get_project(ProjectId(body.from_project))
        flag = None
        if source is not None and call.caller.may_see(source.id):
            check_may_act(call, source, READ_SCOPE)
            check_may_act(call, source, "cohort:read")
            flag = await self._copies.find(source, body.feature_flag_key)
        if source is None or flag is None:
            raise Invalid(NO_FLAG, attr="feature_flag_key", code="does_not_exist")
        return source, flag

    def _find_target(self, call: Call, id: ProjectId) -> Project:
        target = self._directory.get_project(id)
        if target is None or not call.caller.may_see(id):
            raise Forbidden(NO_TARGET)
        check_may_act(call, target, WRITE_SCOPE)
        check_may_act(call, target, "cohort:write")
        return target

    async def _copy(
        self, call: Call, flag: Flag, projects: tuple[Project, Project], body: CopyBody
    ) -> tuple[FlagItem, str]:
        if projects[0].id == projects[1].id:
            raise Invalid("A flag cannot be copied to its own project.")
        inner = enter_project(call, projects[1])
        try:
            copied = await self._write(call, flag, projects, body)
        except PromotionRefused as refused:
            await self._request(inner, flag, projects, refused)
            copied = await self._write(call, flag, projects, body)
        await request_schedule_approval(inner, self._requester, copied.scheduled)
        item = await self._flag_renderer.render_one(inner, copied.flag)
        return item, copied.schedule_problem

    async def _write(
        self, call: Call, flag: Flag, projects: tuple[Project, Project], body: CopyBody
    ) -> FlagCopy:
        author = ScheduleAuthor(actor=call.actor, user_uuid=call.owner.uuid)
        return await self._copies.copy(
            flag, projects, author, call.now, with_schedule=body.copy_schedule
        )

    async def _request(
        self,
        call: ProjectCall,
        flag: Flag,
        projects: tuple[Project, Project],
        refused: PromotionRefused,
    ) -> None:
        """Raise ApprovalRequired with the change request for the copy, unless it is applied now. A
        schedule is not part of the request: it can be copied once the flag is there."""
        copy = describe_copy(flag, projects)
        asked = self._requests.request(
            copy.source, copy.target, copy.request, refused, (build_author(call), call.now)
        )
        await finish_promotion_request(call, asked, refused)


def _render(call: Call, flag: Flag) -> OrganizationFlag:
    return OrganizationFlag(
        flag_id=flag.id,
        team_id=flag.project_id,
        created_by=render_user(call, flag.created_by),
        filters=redact_filters(flag),
        created_at=format_iso(flag.created_at),
        active=flag.active,
    )
