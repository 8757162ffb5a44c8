"""Change requests: changes of flags, cohorts and approval policies that wait for approvals."""

from collections.abc import Sequence
from typing import Annotated, ClassVar
from uuid import UUID

import msgspec
from starlette.responses import Response

from hedgerow.errors import Invalid, NotFound
from hedgerow.flags.approvals.change_requests import SCOPE, ChangeRequests
from hedgerow.flags.approvals.model import ChangeRequest, RequestState, ResourceType
from hedgerow.flags.approvals.permit import break_glass, build_break_glass
from hedgerow.flags.approvals.store import ChangeRequestFilter
from hedgerow.flags.environments.promotion_requests import PromotionRequests
from hedgerow.http.api.activity import activity_endpoint, respond_with_activity
from hedgerow.http.api.flags.change_request_items import (
    ChangeRequester,
    ChangeRequestItem,
    build_author,
    build_voter,
    render_change_request,
)
from hedgerow.http.auth.access import BREAK_GLASS_SCOPE, in_project
from hedgerow.http.auth.personal_key import check_scope
from hedgerow.http.call import ProjectCall
from hedgerow.http.endpoint import endpoint, project_paths
from hedgerow.http.paging import PAGE_PARAMETERS, Page
from hedgerow.http.parameters import Parameter, parse_text
from hedgerow.http.payload.fields import Fields, Text
from hedgerow.http.server.response import JsonResponse
from hedgerow.lib.text import truncate
from hedgerow.projects.store import ActivityStore
from hedgerow.rollouts.bandits.bandits import Bandits

READ = in_project("feature_flag:read")
WRITE = in_project("feature_flag:write")
TEXT_MAX = 5_000
LIST_PARAMETERS = (
    Parameter("state", f"Only requests with one of these states: {', '.join(RequestState)}."),
    Parameter("resource_type", f"Only changes of: {', '.join(ResourceType)}."),
    Parameter("resource_id", "Only changes of the object with this id."),
    Parameter("search", "Only changes of objects whose key or name contains this text."),
    Parameter("requester", "Only requests of the user with this id or uuid."),
)


class DecisionResult(msgspec.Struct, kw_only=True):
    """`status` is approved while further approvals are needed, then applied or failed."""

    status: str
    message: str
    change_request: ChangeRequestItem


class DecisionBody(Fields):
    ignored_fields: ClassVar[frozenset[str] | None] = frozenset()

    reason: Annotated[str, Text(TEXT_MAX, blank=True)] = ""


class ReasonBody(Fields):
    """The reason is required, and recorded."""

    ignored_fields: ClassVar[frozenset[str] | None] = frozenset()

    reason: Annotated[str, Text(TEXT_MAX)]


class CommentBody(Fields):
    ignored_fields: ClassVar[frozenset[str] | None] = frozenset()

    content: Annotated[str, Text(TEXT_MAX)]


class ChangeRequestEndpoints:
    tag = "Approvals"

    def __init__(
        self,
        activity: ActivityStore,
        requests: ChangeRequests,
        requester: ChangeRequester,
        promotions: PromotionRequests,
        bandits: Bandits,
    ) -> None:
        self._activity = activity
        self._requests = requests
        self._requester = requester
        self._promotions = promotions
        self._bandits = bandits

    @endpoint(
        "GET",
        *project_paths("change_requests/"),
        access=READ,
        response=Page[ChangeRequestItem],
        query=PAGE_PARAMETERS + LIST_PARAMETERS,
    )
    async def list_change_requests(self, call: ProjectCall) -> Response:
        """List the change requests, newest first."""
        found, count = await self._requests.list_requests(
            call.project, _parse_filter(call), call.now
        )
        listed = [render_change_request(call, each) for each in found]
        return JsonResponse(call.page(count, listed))

    @endpoint(
        "GET",
        *project_paths("change_requests/{change_request_id}/"),
        access=READ,
        response=ChangeRequestItem,
    )
    async def retrieve_change_request(self, call: ProjectCall) -> Response:
        """Retrieve a change request with its decisions and comments."""
        return self._respond(call, await self._find(call))

    @endpoint(
        "POST",
        *project_paths("change_requests/{change_request_id}/approve/"),
        access=WRITE,
        response=DecisionResult,
        body=DecisionBody,
    )
    async def approve_change_request(self, call: ProjectCall) -> Response:
        """Approve a change request of another person. The last approval that it needs applies the
        change. That of scheduled changes lets them be executed at their time."""
        found = await self._find(call)
        body = await call.body(DecisionBody)
        request = await self._requests.approve(
            call.project, found.id, build_voter(call), body.reason, call.now
        )
        return self._respond_decision(call, await self._apply_approved(call, request))

    @endpoint(
        "POST",
        *project_paths("change_requests/{change_request_id}/reject/"),
        access=WRITE,
        response=DecisionResult,
        body=ReasonBody,
    )
    async def reject_change_request(self, call: ProjectCall) -> Response:
        """Reject a change request of another person, with a reason."""
        found = await self._find(call)
        body = await call.body(ReasonBody)
        request = await self._requests.reject(
            call.project, found.id, build_voter(call), body.reason, call.now
        )
        return self._respond_decision(call, request)

    @endpoint(
        "POST",
        *project_paths("change_requests/{change_request_id}/cancel/"),
        access=WRITE,
        response=DecisionResult,
    )
    async def cancel_change_request(self, call: ProjectCall) -> Response:
        """Withdraw a change request. Only its author can."""
        found = await self._find(call)
        request = await self._requests.withdraw(
            call.project, found.id, build_author(call), call.now
        )
        return self._respond_decision(call, request)

    @endpoint(
        "POST",
        *project_paths("change_requests/{change_request_id}/break_glass/"),
        access=WRITE,
        response=DecisionResult,
        body=ReasonBody,
    )
    async def break_glass_of_change_request(self, call: ProjectCall) -> Response:
        """Apply a change request without its approvals. Needs the scope `project:write`, which
        administrators have. The reason is recorded."""
        found = await self._find(call)
        check_scope(call.caller, BREAK_GLASS_SCOPE, call.project)
        body = await call.body(ReasonBody)
        permit = build_break_glass(body.reason, call.actor)
        with break_glass(permit):
            request = await self._requests.break_glass(
                call.project, found.id, call.actor, permit.reason, call.now
            )
        return self._respond_decision(call, await self._apply_approved(call, request))

    @endpoint(
        "POST",
        *project_paths("change_requests/{change_request_id}/comments/"),
        access=WRITE,
        response=ChangeRequestItem,
        status=201,
        body=CommentBody,
    )
    async def comment_change_request(self, call: ProjectCall) -> Response:
        """Comment on a change request."""
        found = await self._find(call)
        body = await call.body(CommentBody)
        request = await self._requests.comment(
            call.project, found.id, body.content, build_author(call), call.now
        )
        return self._respond(call, request, 201)

    @endpoint(
        "POST",
        *project_paths("change_requests/{change_request_id}/what_if/"),
        access=WRITE,
        response=ChangeRequestItem,
    )
    async def measure_change_request(self, call: ProjectCall) -> Response:
        """Compute the figures of a change request again, for the people of the last week."""
        request = await call.while_connected(self._requester.measure(call, await self._find(call)))
        return self._respond(call, request)

    @activity_endpoint("change_requests/{change_request_id}/activity/", READ)
    async def list_change_request_activity(self, call: ProjectCall) -> Response:
        """List what happened to a change request, newest first."""
        found = await self._find(call)
        return await respond_with_activity(call, self._activity, SCOPE, found.id)

    async def _apply_approved(self, call: ProjectCall, request: ChangeRequest) -> ChangeRequest:
        """Do what a request with its last approval holds, if that needs more than a transaction."""
        request = await self._promotions.apply(call.project, request, call.now)
        return await self._bandits.start_approved(call.project, self._requests, request, call.now)

    async def _find(self, call: ProjectCall) -> ChangeRequest:
        return await self._requests.find(call.project, parse_uuid(call, "change_request_id"))

    def _respond(self, call: ProjectCall, request: ChangeRequest, status: int = 200) -> Response:
        return JsonResponse(render_change_request(call, request), status_code=status)

    def _respond_decision(self, call: ProjectCall, request: ChangeRequest) -> Response:
        item = render_change_request(call, request)
        status = "approved" if item.state == RequestState.PENDING else item.state
        return JsonResponse(
            DecisionResult(status=status, message=_explain(request, item), change_request=item)
        )


def _explain(request: ChangeRequest, item: ChangeRequestItem) -> str:
    if item.state == RequestState.FAILED:
        return f"The change could not be applied: {request.apply_error}"
    if item.state == RequestState.PENDING:
        counts = [f"{each.approvals} of {each.quorum}" for each in item.required_approvals]
        return f"Approval recorded. Approvals by policy: {', '.join(counts)}."
    return f"The change request is {item.state}."


def parse_uuid(call: ProjectCall, name: str) -> str:
    try:
        return str(UUID(call.path_param(name)))
    except ValueError:
        raise NotFound from None


def _parse_filter(call: ProjectCall) -> ChangeRequestFilter:
    window = call.window
    return ChangeRequestFilter(
        states=_parse_choices(call, "state", RequestState),
        resource_type=_parse_choice(call, "resource_type", ResourceType),
        resource_id=call.query_param("resource_id") or None,
        author_uuid=_parse_requester(call),
        search=parse_text(call.query_param("search"), "search").strip()[:200],
        limit=window.limit,
        offset=window.offset,
    )


def _parse_choices(
    call: ProjectCall, name: str, kind: type[RequestState]
) -> frozenset[RequestState] | None:
    text = call.query_param(name)
    if not text:
        return None
    for each in text.split(","):
        _check_choice(each, name, list(kind))
    return frozenset(kind(each) for each in text.split(","))


def _parse_choice(call: ProjectCall, name: str, kind: type[ResourceType]) -> ResourceType | None:
    text = call.query_param(name)
    if not text:
        return None
    _check_choice(text, name, list(kind))
    return kind(text)


def _check_choice(text: str, name: str, choices: Sequence[str]) -> None:
    if text not in choices:
        expected = ", ".join(choices)
        detail = f'"{truncate(text)}" is not a valid choice. Expected one of: {expected}.'
        raise Invalid(detail, attr=name, code="invalid_choice")


def _parse_requester(call: ProjectCall) -> str | None:
    text = call.query_param("requester")
    if not text:
        return None
    directory = call.context.directory
    if text.isascii() and text.isdecimal() and len(text) < 10:
        user = directory.find_user_by_id(int(text))
        return user.uuid if user else text
    return text
