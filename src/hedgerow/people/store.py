"""Storage of people, implemented in `storage/people/`."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from hedgerow.people.model import Credentials, Invite, NewMember, PasswordLink
from hedgerow.projects.activity import Actor
from hedgerow.projects.model import LoginSession, OrganizationRole, ProjectId, Role, User


class LoginStore(Protocol):
    async def count_attempt(
        self, limits: Mapping[str, int], until: datetime, now: datetime
    ) -> datetime | None:
        """Count an attempt in each bucket. If one is at its limit, count nothing and return when
        it is over."""
        ...

    async def forgive_attempt(self, forgotten: Sequence[str], reduced: Sequence[str]) -> None:
        """Forget all attempts in some buckets, and one in others."""
        ...

    async def find_credentials(self, email: str) -> Credentials | None: ...
    async def start_session(self, session: LoginSession, replaced: str | None, user: User) -> None:
        """Store a session. It replaces another one of the same browser, and the oldest ones of the
        person if there are too many."""
        ...

    async def end_sessions(
        self, user: User, ids: Sequence[str], actor: Actor, now: datetime
    ) -> None: ...
    async def set_password(
        self, user: User, password_hash: str, kept_session: str | None, actor: Actor, now: datetime
    ) -> None:
        """Replace the password. All other sessions and all password links of the person end."""
        ...

    async def set_pending_totp(self, user_id: int, secret: str) -> None: ...
    async def enable_totp(
        self, user: User, step: int, codes: Sequence[str], actor: Actor, now: datetime
    ) -> bool:
        """Make the pending secret the one that counts. Return False if there is none."""
        ...

    async def disable_totp(self, user: User, actor: Actor, now: datetime) -> None: ...
    async def replace_recovery_codes(
        self, user: User, codes: Sequence[str], actor: Actor, now: datetime
    ) -> None: ...
    async def count_recovery_codes(self, user_id: int) -> int: ...
    async def use_totp_step(self, user_id: int, step: int) -> bool:
        """Return False if a code of this step, or of a later one, was used before."""
        ...

    async def use_recovery_code(self, user_id: int, hash: str) -> bool:
        """Delete a code. Return False if there is no such code any more."""
        ...

    async def add_link(self, link: PasswordLink) -> None: ...
    async def remove_link(self, hash: str) -> bool:
        """Return False if there is no such link any more."""
        ...

    async def find_link(self, hash: str, now: datetime) -> PasswordLink | None: ...
    async def use_link(
        self,
        link: PasswordLink,
        user: User,
        password_hash: str,
        owner: NewMember | None,
        now: datetime,
    ) -> bool:
        """Set the password of the person, and the names of the owner if the link sets up the
        installation. Return False if the link was used already."""
        ...


class MemberStore(Protocol):
    async def add_user(self, member: NewMember, actor: Actor, now: datetime) -> int:
        """Return the id. Raises Conflict if the email is taken."""
        ...

    async def edit_user(
        self,
        user: User,
        *,
        first_name: str | None = None,
        organization_role: OrganizationRole | None = None,
        project_roles: Mapping[ProjectId, str] | None = None,
        actor: Actor,
        now: datetime,
    ) -> None:
        """Change what is given, and keep the rest as it is by then: roles may have been taken away
        since the person was read. Raises Invalid if no owner would be left."""
        ...

    async def remove_user(self, user: User, actor: Actor, now: datetime) -> None:
        """Delete a person with its keys, sessions and roles. Raises Invalid for the last owner."""
        ...

    async def add_role(self, role: Role, actor: Actor, now: datetime) -> None: ...
    async def edit_role(
        self, id: str, edit: Callable[[Role], Role], actor: Actor, now: datetime
    ) -> Role: ...
    async def remove_role(self, id: str, actor: Actor, now: datetime) -> None:
        """Raises Conflict while a member has the role."""
        ...

    async def add_invite(self, invite: Invite, actor: Actor) -> None:
        """An earlier invite to the same email ends."""
        ...

    async def list_invites(self) -> list[Invite]: ...
    async def find_invite(self, *, hash: str = "", email: str = "") -> Invite | None:
        """Return the invite with this token, or to this email."""
        ...

    async def remove_invite(self, id: str, actor: Actor, now: datetime) -> None: ...
    async def accept_invite(self, invite: Invite, member: NewMember, now: datetime) -> int | None:
        """Add the person and end the invite. Return None if it was used already."""
        ...
