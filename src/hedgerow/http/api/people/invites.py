"""Invites: an owner creates a link, and the person who opens it joins. Mail is optional."""

from collections.abc import Mapping
from typing import Annotated

import msgspec
from pydantic import Field
from starlette.responses import Response

from hedgerow.http.api.people.login import Email
from hedgerow.http.api.people.members import (
    LEVELS,
    Level,
    ProjectRoles,
    parse_level,
    parse_project_roles,
)
from hedgerow.http.api.projects import ORGANIZATION, check_organization
from hedgerow.http.auth.access import anywhere, recently
from hedgerow.http.call import Call
from hedgerow.http.endpoint import endpoint
from hedgerow.http.paging import PAGE_PARAMETERS, Page
from hedgerow.http.payload.fields import Fields, Text
from hedgerow.http.server.response import JsonResponse, no_content
from hedgerow.lib.clock import format_iso
from hedgerow.people.mail.outbox import Outbox
from hedgerow.people.members import Members
from hedgerow.people.model import MAX_NAME_CHARS, Invite, build_url

INVITES = f"{ORGANIZATION}invites/"
CHANGE_INVITES = recently(anywhere("organization_member:write"))


class InviteItem(msgspec.Struct, kw_only=True):
    """An invite. Only the response that creates it contains its `link`; the link works once, until
    `expires_at`."""

    id: str
    target_email: str
    first_name: str
    level: int
    project_roles: Mapping[str, str]
    is_expired: bool
    emailing_attempt_made: bool
    created_by: Mapping[str, str]
    created_at: str
    expires_at: str
    link: str | None


class NewInvite(Fields):
    """`level` is 1 for a member, 15 for an owner. `project_roles` has the roles of a member:
    `{"1": "viewer"}`. The link is also sent by mail if a mail server is set, unless `send_email` is
    false."""

    ignored_fields = frozenset()

    target_email: Email
    first_name: Annotated[str, Text(MAX_NAME_CHARS, blank=True)] = ""
    level: Level = 1
    project_roles: ProjectRoles = Field(default_factory=dict)
    send_email: bool = True


def _render_invite(call: Call, invite: Invite, value: str | None = None) -> InviteItem:
    creator = invite.created_by
    return InviteItem(
        id=invite.id,
        target_email=invite.email,
        first_name=invite.first_name,
        level=LEVELS[invite.organization_role],
        project_roles={str(id): role for id, role in invite.project_roles.items()},
        is_expired=invite.expires_at <= call.now,
        emailing_attempt_made=invite.is_mailed,
        created_by={"first_name": creator, "email": creator},
        created_at=format_iso(invite.created_at),
        expires_at=format_iso(invite.expires_at),
        link=build_url(call.base_url, "invite", value) if value else None,
    )


class InviteEndpoints:
    tag = "Invites"

    def __init__(self, members: Members, outbox: Outbox) -> None:
        self._members = members
        self._outbox = outbox

    @endpoint(
        "GET",
        INVITES,
        access=anywhere("organization_member:read"),
        response=Page[InviteItem],
        query=PAGE_PARAMETERS,
    )
    async def list_invites(self, call: Call) -> Response:
        """List open and expired invites, newest first, without their links. For owners."""
        check_organization(call)
        found = await self._members.list_invites()
        items = [_render_invite(call, each) for each in call.window.of(found)]
        return JsonResponse(call.page(len(found), items))

    @endpoint(
        "POST", INVITES, access=CHANGE_INVITES, response=InviteItem, status=201, body=NewInvite
    )
    async def create_invite(self, call: Call) -> Response:
        """Invite a person. Send it the link: only this response contains it. The link works once,
        for 7 days. An earlier invite to the same address ends."""
        check_organization(call)
        body = await call.body(NewInvite)
        issued = await self._members.invite(
            body.target_email,
            body.first_name,
            parse_level(body.level),
            parse_project_roles(body.project_roles),
            call.actor,
            call.now,
            is_mailed=body.send_email and self._outbox.is_enabled,
        )
        if issued.invite.is_mailed:
            await self._outbox.add_invite(issued, call.now)
        return JsonResponse(_render_invite(call, issued.invite, issued.value), status_code=201)

    @endpoint("DELETE", INVITES + "{invite_id}/", access=CHANGE_INVITES, status=204)
    async def remove_invite(self, call: Call) -> Response:
        """Withdraw an invite. Its link stops working."""
        check_organization(call)
        await self._members.remove_invite(call.path_param("invite_id"), call.actor, call.now)
        return no_content()
