"""Members of the organization: their roles, and invites."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import uuid4

from hedgerow.errors import Forbidden, Invalid
from hedgerow.lib.text import truncate
from hedgerow.lib.tokens import generate_token, hash_token
from hedgerow.people.model import (
    INVITE_PREFIX,
    INVITE_TIME,
    MAX_NAME_CHARS,
    Invite,
    NewMember,
    parse_email,
)
from hedgerow.people.passwords import PasswordHasher, check_new_password
from hedgerow.people.store import MemberStore
from hedgerow.projects.activity import Actor
from hedgerow.projects.directory import Directory
from hedgerow.projects.model import KEY_BITS, OrganizationRole, ProjectId, Role, User
from hedgerow.projects.roles import BUILT_IN_ROLES
from hedgerow.projects.scopes import ALL_SCOPES, validate_scopes
from hedgerow.projects.validation import validate_text

MAX_ROLE_NAME_CHARS = 200
MAX_ROLES = 200
INVITE_OVER = "This invite is not valid any more. Invites work once, for 7 days: ask for a new one."


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberFields:
    """The fields of a member that can be changed; None keeps one."""

    organization_role: OrganizationRole | None = None
    project_roles: Mapping[ProjectId, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuedInvite:
    """An invite with its token, which cannot be read later."""

    invite: Invite
    value: str


class Members:
    """Changes members, and refreshes the directory of this process."""

    def __init__(self, store: MemberStore, directory: Directory, hasher: PasswordHasher) -> None:
        self._store = store
        self._directory = directory
        self._hasher = hasher

    async def add(  # noqa: PLR0913 - the fields of a person
        self,
        email: str,
        first_name: str,
        organization_role: OrganizationRole,
        project_roles: Mapping[ProjectId, str],
        *,
        password: str | None = None,
        actor: Actor,
        now: datetime,
    ) -> User:
        """Add a person, without an invite. Without a password it cannot log in yet."""
        member = NewMember(
            email=parse_email(email),
            first_name=validate_text("first_name", first_name, MAX_NAME_CHARS),
            organization_role=organization_role,
            project_roles=self.check_roles(project_roles),
        )
        if password is not None:
            check_new_password(password, member.email)
            member = replace(member, password_hash=await self._hasher.hash(password))
        id = await self._store.add_user(member, actor, now)
        await self._directory.refresh()
        return self._directory.get_user(id)

    async def change(self, user: User, fields: MemberFields, actor: Actor, now: datetime) -> User:
        """Change the roles of a person. They count at once, for its sessions and its keys."""
        given = fields.project_roles
        await self._store.edit_user(
            user,
            organization_role=fields.organization_role,
            project_roles=None if given is None else self.check_roles(given),
            actor=actor,
            now=now,
        )
        await self._directory.refresh()
        return self._directory.get_user(user.id)

    async def rename(self, user: User, first_name: str, actor: Actor, now: datetime) -> None:
        await self._store.edit_user(
            user,
            first_name=validate_text("first_name", first_name, MAX_NAME_CHARS),
            actor=actor,
            now=now,
        )
        await self._directory.refresh()

    async def remove(self, user: User, actor: Actor, now: datetime) -> None:
        """Remove a person. Its sessions and keys end at once."""
        await self._store.remove_user(user, actor, now)
        await self._directory.refresh()

    async def add_role(
        self, name: str, scopes: tuple[str, ...], actor: Actor, now: datetime
    ) -> Role:
        if len(self._directory.roles) >= MAX_ROLES:
            raise Invalid(f"An organization has at most {MAX_ROLES} roles.", code="too_many_roles")
        role = Role(id=str(uuid4()), name=self._check_name(name), scopes=_check_scopes(scopes))
        await self._store.add_role(role, actor, now)
        await self._directory.refresh()
        return role

    async def change_role(
        self,
        id: str,
        name: str | None,
        scopes: tuple[str, ...] | None,
        actor: Actor,
        now: datetime,
    ) -> Role:
        """Change a role. Its scopes count at once, for all who have it."""
        _check_not_built_in(id)

        def edit(role: Role) -> Role:
            return replace(
                role,
                name=role.name if name is None else self._check_name(name),
                scopes=role.scopes if scopes is None else _check_scopes(scopes),
            )

        role = await self._store.edit_role(id, edit, actor, now)
        await self._directory.refresh()
        return role

    async def remove_role(self, id: str, actor: Actor, now: datetime) -> None:
        _check_not_built_in(id)
        await self._store.remove_role(id, actor, now)
        await self._directory.refresh()

    async def invite(  # noqa: PLR0913 - the fields of an invite
        self,
        email: str,
        first_name: str,
        organization_role: OrganizationRole,
        project_roles: Mapping[ProjectId, str],
        actor: Actor,
        now: datetime,
        *,
        is_mailed: bool = False,
    ) -> IssuedInvite:
        """Create an invite. An earlier one to the same email ends."""
        value = generate_token(INVITE_PREFIX, KEY_BITS)
        invite = Invite(
            id=str(uuid4()),
            hash=hash_token(value),
            email=parse_email(email, "target_email"),
            first_name=first_name.strip()[:MAX_NAME_CHARS],
            organization_role=organization_role,
            project_roles=self.check_roles(project_roles),
            created_by=actor.email or actor.name,
            created_at=now,
            expires_at=now + INVITE_TIME,
            is_mailed=is_mailed,
        )
        await self._store.add_invite(invite, actor)
        return IssuedInvite(invite=invite, value=value)

    async def list_invites(self) -> list[Invite]:
        return await self._store.list_invites()

    async def remove_invite(self, id: str, actor: Actor, now: datetime) -> None:
        await self._store.remove_invite(id, actor, now)

    async def accept(self, token: str, first_name: str, password: str, now: datetime) -> User:
        """Add the person whom an invite is for, with the roles that the invite fixes."""
        invite = await self._store.find_invite(hash=hash_token(token))
        if invite is None or invite.expires_at <= now:
            raise Invalid(INVITE_OVER, attr="token", code="invalid_token")
        check_new_password(password, invite.email)
        name = validate_text("first_name", first_name, MAX_NAME_CHARS)
        user = await self._accept(invite, name, await self._hasher.hash(password), now)
        if user is None:
            raise Invalid(INVITE_OVER, attr="token", code="invalid_token")
        return user

    async def accept_for(self, email: str, first_name: str, now: datetime) -> User | None:
        """Add the person with this email, which someone else has verified, if it is invited."""
        invite = await self._store.find_invite(email=email)
        if invite is None or invite.expires_at <= now:
            return None
        return await self._accept(invite, first_name, None, now)

    async def _accept(
        self, invite: Invite, first_name: str, password_hash: str | None, now: datetime
    ) -> User | None:
        """Return None if the invite was used already."""
        member = NewMember(
            email=invite.email,
            first_name=first_name,
            organization_role=invite.organization_role,
            project_roles=self.keep_known(invite.project_roles),
            password_hash=password_hash,
        )
        id = await self._store.accept_invite(invite, member, now)
        if id is None:
            return None
        await self._directory.refresh()
        return self._directory.get_user(id)

    def keep_known(self, project_roles: Mapping[ProjectId, str]) -> Mapping[ProjectId, str]:
        """Leave out roles and projects that were deleted since."""
        known, find_project = self._directory.roles, self._directory.get_project
        items = project_roles.items()
        return {id: role for id, role in items if role in known and find_project(id) is not None}

    def check_roles(self, project_roles: Mapping[ProjectId, str]) -> Mapping[ProjectId, str]:
        """Raise Invalid for a project or a role that does not exist."""
        for id, role in project_roles.items():
            if self._directory.get_project(id) is None:
                raise Invalid(
                    f"There is no project {id}.", attr="project_roles", code="does_not_exist"
                )
            if role not in self._directory.roles:
                known = ", ".join(self._directory.roles)
                raise Invalid(
                    f"There is no role {truncate(role)}. Expected one of: {known}.",
                    attr="project_roles",
                    code="does_not_exist",
                )
        return project_roles

    def _check_name(self, name: str) -> str:
        name = validate_text("name", name, MAX_ROLE_NAME_CHARS)
        if name.lower() in BUILT_IN_ROLES:
            raise Invalid("There is a role with this name already.", attr="name", code="unique")
        return name


def _check_scopes(scopes: tuple[str, ...]) -> frozenset[str]:
    """`*` would also mean what does not belong to a project."""
    if ALL_SCOPES in scopes:
        detail = "A role has named scopes. The role `admin` has all of a project."
        raise Invalid(detail, attr="scopes")
    return frozenset(validate_scopes(scopes))


def _check_not_built_in(id: str) -> None:
    if id in BUILT_IN_ROLES:
        raise Forbidden("The roles viewer, editor and admin cannot be changed. Create another one.")
