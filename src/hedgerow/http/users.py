"""`/api/users/@me/`: the person behind the key."""

from collections.abc import Sequence
from typing import Annotated

import msgspec
from fastapi import APIRouter
from starlette.responses import Response

from hedgerow.http.access import Call, anywhere
from hedgerow.http.describe import describes
from hedgerow.http.projects import ProjectItem, item
from hedgerow.http.reply import JsonResponse

router = APIRouter(prefix="/api/users", tags=["Users"])


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


@router.get("/@me/")
@describes(answer=UserDetail)
async def retrieve_me(
    call: Annotated[Call, anywhere("user:read", restricted_keys=True)],
) -> Response:
    """The key's owner, with the project that `@current` stands for."""
    user = call.rooms.directory.user(call.key.user_id)
    current = next(iter(call.rooms.directory.projects_for(call.key)), None)
    organization = OrganizationItem(
        id=user.organization.id,
        name=user.organization.name,
        slug=user.organization.name.lower(),
    )
    return JsonResponse(
        UserDetail(
            id=user.id,
            uuid=user.uuid,
            distinct_id=user.distinct_id,
            first_name=user.first_name,
            last_name="",
            email=user.email,
            is_staff=False,
            is_2fa_enabled=False,
            has_password=False,
            team=item(current) if current else None,
            organization=organization,
            organizations=[organization],
        )
    )
