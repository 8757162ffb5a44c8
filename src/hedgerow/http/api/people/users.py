"""The person who calls, or who owns the personal API key."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from starlette.responses import Response

from hedgerow.http.api.projects import (
    ORGANIZATION,
    ProjectItem,
    check_organization,
    render_project,
)
from hedgerow.http.auth.access import anywhere
from hedgerow.http.call import Call
from hedgerow.http.endpoint import endpoint
from hedgerow.http.paging import PAGE_PARAMETERS, Page
from hedgerow.http.server.response import JsonResponse
from hedgerow.projects.caller import Caller
from hedgerow.projects.directory import Directory
from hedgerow.projects.model import Organization, User


class OrganizationItem(msgspec.Struct, kw_only=True):
    id: str
    name: str
    slug: str


class UserDetail(msgspec.Struct, kw_only=True):
    id: int
    uuid: str
    distinct_id: str
    first_name: str
    last_name: str
    email: str
    is_staff: bool
    is_2fa_enabled: bool
    has_password: bool
    team: ProjectItem | None
    organization: OrganizationItem
    organizations: Sequence[OrganizationItem]


def render_user(call: Call, email: str) -> Mapping[str, Any]:
    """Render the creator of an object. Of the command line, and of a person who has left, only the
    email is known."""
    user = call.context.directory.find_user(email=email)
    if user is None:
        return {"first_name": email, "email": email}
    return {
        "id": user.id,
        "uuid": user.uuid,
        "distinct_id": user.distinct_id,
        "first_name": user.first_name,
        "email": user.email,
    }


class UserEndpoints:
    tag = "Users"

    def __init__(self, directory: Directory) -> None:
        self._directory = directory

    @endpoint(
        "GET",
        "/api/organizations/",
        access=anywhere("organization:read", restricted_keys=True, is_personal=True),
        response=Page[OrganizationItem],
        query=PAGE_PARAMETERS,
    )
    async def list_organizations(self, call: Call) -> Response:
        """List the organizations of the person who calls: the one of this installation."""
        items = [render_organization(call.owner.organization)]
        return JsonResponse(call.page(len(items), call.window.of(items)))

    @endpoint(
        "GET",
        ORGANIZATION,
        access=anywhere("organization:read", restricted_keys=True, is_personal=True),
        response=OrganizationItem,
    )
    async def retrieve_organization(self, call: Call) -> Response:
        """Retrieve the organization of the person who calls."""
        check_organization(call)
        return JsonResponse(render_organization(call.owner.organization))

    @endpoint(
        "GET",
        "/api/users/@me/",
        access=anywhere("user:read", restricted_keys=True, is_personal=True),
        response=UserDetail,
    )
    async def retrieve_me(self, call: Call) -> Response:
        """Retrieve the person who calls, with the project that `@current` refers to."""
        return JsonResponse(render_detail(call.owner, call.caller, self._directory))


def render_detail(user: User, caller: Caller, directory: Directory) -> UserDetail:
    current = next(iter(directory.list_projects_for(caller)), None)
    organization = render_organization(user.organization)
    return UserDetail(
        id=user.id,
        uuid=user.uuid,
        distinct_id=user.distinct_id,
        first_name=user.first_name,
        last_name="",
        email=user.email,
        is_staff=False,
        is_2fa_enabled=user.has_totp,
        has_password=user.has_password,
        team=render_project(current) if current else None,
        organization=organization,
        organizations=[organization],
    )


def render_organization(organization: Organization) -> OrganizationItem:
    return OrganizationItem(
        id=organization.id, name=organization.name, slug=organization.name.lower()
    )
