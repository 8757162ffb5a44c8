"""Members of the organization and their roles. Members see each other; owners change them."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec
from annotated_types import MaxLen
from starlette.responses import Response

from hedgerow.errors import Forbidden, Invalid, NotFound
from hedgerow.http.api.people.account import SessionItem, render_session
from hedgerow.http.api.projects import ORGANIZATION, check_organization
from hedgerow.http.auth.access import anywhere, recently
from hedgerow.http.call import Call
from hedgerow.http.endpoint import endpoint
from hedgerow.http.paging import PAGE_PARAMETERS, Page
from hedgerow.http.parameters import Parameter
from hedgerow.http.payload.fields import INT64_MAX, OMITTED, Between, Fields, Text
from hedgerow.http.server.response import JsonResponse, no_content
from hedgerow.lib.clock import format_iso
from hedgerow.people.logins import Logins
from hedgerow.people.members import MAX_ROLE_NAME_CHARS, MemberFields, Members
from hedgerow.projects.caller import Caller
from hedgerow.projects.directory import Directory
from hedgerow.projects.model import OrganizationRole, ProjectId, Role, User
from hedgerow.projects.roles import BUILT_IN_ROLES

MEMBERS = f"{ORGANIZATION}members/"
ROLES = f"{ORGANIZATION}roles/"
ME = "@me"
SEARCH = Parameter("search", "Only members whose name or email contains this text.")

READ_MEMBERS = anywhere("organization_member:read", restricted_keys=True)
CHANGE_MEMBERS = recently(anywhere("organization_member:write"))
# Every member may leave.
REMOVE_MEMBER = recently(anywhere("organization_member:write", is_personal=True))

# PostHog's numbers.
LEVELS: Mapping[OrganizationRole, int] = {"member": 1, "owner": 15}

Level = Annotated[int, Between(0, 100)]
ProjectRoles = Annotated[dict[str, Annotated[str, Text(100)]], MaxLen(1000)]
RoleScopes = Annotated[list[Annotated[str, Text(200)]], MaxLen(200)]
RoleName = Annotated[str, Text(MAX_ROLE_NAME_CHARS)]


class MemberUser(msgspec.Struct, kw_only=True):
    id: int
    uuid: str
    distinct_id: str
    first_name: str
    last_name: str
    email: str


class MemberItem(msgspec.Struct, kw_only=True):
    """A member. `level` is 15 for an owner, who may do everything, and 1 for a member.
    `project_roles` has the id of the role for each project in which a member has one, as far as
    the caller may see the project."""

    id: str
    user: MemberUser
    level: int
    joined_at: str
    is_2fa_enabled: bool
    has_password: bool
    last_login: str | None
    project_roles: Mapping[str, str]


class MemberRights(MemberItem, kw_only=True):
    """A member with the scopes in each project that both it and the caller may see."""

    scopes: Mapping[str, Sequence[str]]


class MemberChange(Fields):
    """`project_roles` replaces all roles of the member: `{"1": "viewer"}`."""

    ignored_fields = frozenset(("id", "user", "joined_at", "is_2fa_enabled", "last_login"))

    level: Level = OMITTED
    project_roles: ProjectRoles = OMITTED


class RoleItem(msgspec.Struct, kw_only=True):
    """A role. Those with `is_built_in` exist in every installation and cannot be changed."""

    id: str
    name: str
    scopes: Sequence[str]
    is_built_in: bool
    members: int


class NewRole(Fields):
    ignored_fields = frozenset(("id", "is_built_in", "members"))

    name: RoleName
    scopes: RoleScopes


class RoleChange(Fields):
    ignored_fields = frozenset(("id", "is_built_in", "members"))

    name: RoleName = OMITTED
    scopes: RoleScopes = OMITTED


def parse_level(level: int) -> OrganizationRole:
    for role, number in LEVELS.items():
        if number == level:
            return role
    raise Invalid(
        f'"{level}" is not a valid choice. Expected 1 for a member or 15 for an owner.',
        attr="level",
        code="invalid_choice",
    )


def parse_project_roles(given: Mapping[str, str]) -> Mapping[ProjectId, str]:
    found: dict[ProjectId, str] = {}
    for id, role in given.items():
        if not (id.isascii() and id.isdecimal() and len(id) < 20 and int(id) <= INT64_MAX):
            raise Invalid(
                'Expected the ids of projects with the ids of roles, such as {"1": "viewer"}.',
                attr="project_roles",
            )
        found[ProjectId(int(id))] = role
    return found


def render_member_fields(user: User, caller: Caller) -> dict[str, Any]:
    """Render a member for a caller, who learns nothing about projects that it may not see."""
    roles = sorted(user.project_roles.items())
    return {
        "id": user.uuid,
        "user": MemberUser(
            id=user.id,
            uuid=user.uuid,
            distinct_id=user.distinct_id,
            first_name=user.first_name,
            last_name="",
            email=user.email,
        ),
        "level": LEVELS[user.organization_role],
        "joined_at": format_iso(user.created_at),
        "is_2fa_enabled": user.has_totp,
        "has_password": user.has_password,
        "last_login": format_iso(user.last_login_at) if user.last_login_at else None,
        "project_roles": {str(id): role.id for id, role in roles if caller.may_see(id)},
    }


class MemberEndpoints:
    tag = "Members"

    def __init__(self, directory: Directory, logins: Logins, members: Members) -> None:
        self._directory = directory
        self._logins = logins
        self._members = members

    @endpoint(
        "GET",
        MEMBERS,
        access=READ_MEMBERS,
        response=Page[MemberItem],
        query=(*PAGE_PARAMETERS, SEARCH),
    )
    async def list_members(self, call: Call) -> Response:
        """List the members of the organization, oldest first."""
        check_organization(call)
        wanted = (call.query_param("search") or "").strip().casefold()
        users = [
            each
            for each in self._directory.list_users()
            if wanted in each.email or wanted in each.first_name.casefold()
        ]
        items = [
            MemberItem(**render_member_fields(each, call.caller)) for each in call.window.of(users)
        ]
        return JsonResponse(call.page(len(users), items))

    @endpoint("GET", MEMBERS + "{user_id}/", access=READ_MEMBERS, response=MemberRights)
    async def retrieve_member(self, call: Call) -> Response:
        """Retrieve a member with what it may do. `@me` is the person who calls."""
        return JsonResponse(self._render_rights(self._find(call), call.caller))

    @endpoint(
        "PATCH",
        MEMBERS + "{user_id}/",
        access=CHANGE_MEMBERS,
        response=MemberRights,
        body=MemberChange,
    )
    async def change_member(self, call: Call) -> Response:
        """Change the roles of a member. They count at once for its sessions and keys. The last
        owner stays an owner."""
        user = self._find(call)
        body = await call.body(MemberChange)
        names = body.model_fields_set
        fields = MemberFields(
            organization_role=parse_level(body.level) if "level" in names else None,
            project_roles=parse_project_roles(body.project_roles)
            if "project_roles" in names
            else None,
        )
        changed = await self._members.change(user, fields, call.actor, call.now)
        return JsonResponse(self._render_rights(changed, call.caller))

    @endpoint("DELETE", MEMBERS + "{user_id}/", access=REMOVE_MEMBER, status=204)
    async def remove_member(self, call: Call) -> Response:
        """Remove a member with its keys and sessions, or leave yourself. The last owner cannot be
        removed."""
        user = self._find(call)
        if not call.owner.is_owner and user.id != call.owner.id:
            raise Forbidden("Only owners of the organization may remove others.")
        await self._members.remove(user, call.actor, call.now)
        return no_content()

    @endpoint(
        "GET",
        MEMBERS + "{user_id}/sessions/",
        access=anywhere("organization_member:read"),
        response=list[SessionItem],
    )
    async def list_member_sessions(self, call: Call) -> Response:
        """List the open sessions of a member, newest first. For owners."""
        found = self._directory.list_sessions(self._find(call).id)
        current = call.caller.session
        return JsonResponse([render_session(each, self._directory, current) for each in found])

    @endpoint("DELETE", MEMBERS + "{user_id}/sessions/", access=CHANGE_MEMBERS, status=204)
    async def end_member_sessions(self, call: Call) -> Response:
        """End all sessions of a member. For owners."""
        user = self._find(call)
        found = self._directory.list_sessions(user.id)
        await self._logins.end_sessions(user, found, call.actor, call.now)
        return no_content()

    @endpoint("GET", ROLES, access=READ_MEMBERS, response=list[RoleItem])
    async def list_roles(self, call: Call) -> Response:
        """List the roles that members can have in a project."""
        check_organization(call)
        return JsonResponse([self._render_role(each) for each in self._directory.roles.values()])

    @endpoint("POST", ROLES, access=CHANGE_MEMBERS, response=RoleItem, status=201, body=NewRole)
    async def create_role(self, call: Call) -> Response:
        """Create a role: a name and a set of scopes."""
        check_organization(call)
        body = await call.body(NewRole)
        role = await self._members.add_role(body.name, tuple(body.scopes), call.actor, call.now)
        return JsonResponse(self._render_role(role), status_code=201)

    @endpoint(
        "PATCH", ROLES + "{role_id}/", access=CHANGE_MEMBERS, response=RoleItem, body=RoleChange
    )
    async def change_role(self, call: Call) -> Response:
        """Change a role. Its scopes count at once for all who have it."""
        role = self._find_role(call)
        body = await call.body(RoleChange)
        scopes = tuple(body.scopes) if "scopes" in body.model_fields_set else None
        changed = await self._members.change_role(role.id, body.name, scopes, call.actor, call.now)
        return JsonResponse(self._render_role(changed))

    @endpoint("DELETE", ROLES + "{role_id}/", access=CHANGE_MEMBERS, status=204)
    async def remove_role(self, call: Call) -> Response:
        """Delete a role that no member has."""
        await self._members.remove_role(self._find_role(call).id, call.actor, call.now)
        return no_content()

    def _find(self, call: Call) -> User:
        check_organization(call)
        uuid = call.path_param("user_id")
        user = call.owner if uuid == ME else self._directory.find_user(uuid=uuid)
        if user is None:
            raise NotFound
        return user

    def _find_role(self, call: Call) -> Role:
        check_organization(call)
        role = self._directory.roles.get(call.path_param("role_id"))
        if role is None:
            raise NotFound
        return role

    def _render_rights(self, user: User, caller: Caller) -> MemberRights:
        everything = sorted(BUILT_IN_ROLES["admin"].scopes)
        shared = [
            each for each in self._directory.list_projects_for(caller) if user.may_see(each.id)
        ]
        return MemberRights(
            **render_member_fields(user, caller),
            scopes={
                str(each.id): everything
                if user.is_owner
                else sorted(user.project_roles[each.id].scopes)
                for each in shared
            },
        )

    def _render_role(self, role: Role) -> RoleItem:
        having = [
            user
            for user in self._directory.list_users()
            if any(each.id == role.id for each in user.project_roles.values())
        ]
        return RoleItem(
            id=role.id,
            name=role.name,
            scopes=sorted(role.scopes),
            is_built_in=role.id in BUILT_IN_ROLES,
            members=len(having),
        )
