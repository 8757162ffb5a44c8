"""Members of the organization, their roles, and invites. Every change is audited and advances the
directory's generation."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any
from uuid import uuid4

from sqlalchemy import Connection, Row, delete, func, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from hedgerow.errors import Conflict, Invalid, NotFound
from hedgerow.people.model import Invite, NewMember
from hedgerow.people.store import MemberStore
from hedgerow.projects.activity import Actor
from hedgerow.projects.model import OrganizationRole, ProjectId, Role, User
from hedgerow.storage.engine.database import Database
from hedgerow.storage.people.user_activity import (
    INVITE_SCOPE,
    ROLE_SCOPE,
    USER_SCOPE,
    record_change,
)
from hedgerow.storage.projects.deletions import is_deleted
from hedgerow.storage.tables import (
    invites,
    organizations,
    password_links,
    personal_keys,
    project_members,
    projects,
    recovery_codes,
    roles,
    sessions,
    user_identities,
    users,
)

# Rows that belong to a person and end with it.
_OF_USERS = (
    personal_keys,
    sessions,
    recovery_codes,
    password_links,
    project_members,
    user_identities,
)
_LAST_OWNER = "An organization needs an owner. Make another person an owner first."
_NAME_TAKEN = "There is a role with this name already."


class SqlMemberStore(MemberStore):
    def __init__(self, database: Database) -> None:
        self._database = database

    async def add_user(self, member: NewMember, actor: Actor, now: datetime) -> int:
        try:
            return await self._database.write(
                lambda connection: insert_user(connection, member, actor, now)
            )
        except IntegrityError:
            raise _email_taken() from None

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
        given = {"first_name": first_name, "organization_role": organization_role}
        values = {name: value for name, value in given.items() if value is not None}

        def change(connection: Connection) -> None:
            before = _lock_user(connection, user)
            if organization_role == "member":
                _check_other_owner(connection, user)
            if values:
                connection.execute(update(users).where(users.c.id == user.id).values(values))
            if organization_role == "member":
                _end_invites(connection, user)
            if project_roles is not None:
                own = project_members.c.user_id == user.id
                connection.execute(delete(project_members).where(own))
                _insert_project_roles(connection, user.id, project_roles)
            after = _read_audited(connection, user.id)
            if after != before:
                item = (user.uuid, user.email)
                record_change(connection, USER_SCOPE, item, "updated", actor, now, before, after)

        await self._database.write(change)

    async def remove_user(self, user: User, actor: Actor, now: datetime) -> None:
        def change(connection: Connection) -> None:
            before = _lock_user(connection, user)
            _check_other_owner(connection, user)
            for table in _OF_USERS:
                connection.execute(delete(table).where(table.c.user_id == user.id))
            _end_invites(connection, user)
            connection.execute(delete(users).where(users.c.id == user.id))
            item = (user.uuid, user.email)
            record_change(connection, USER_SCOPE, item, "deleted", actor, now, before)

        await self._database.write(change)

    async def add_role(self, role: Role, actor: Actor, now: datetime) -> None:
        row = {**_get_role_fields(role), "id": role.id, "created_at": now, "updated_at": now}

        def change(connection: Connection) -> None:
            connection.execute(insert(roles), row)
            after = _get_role_fields(role)
            item = (role.id, role.name)
            record_change(connection, ROLE_SCOPE, item, "created", actor, now, None, after)

        try:
            await self._database.write(change)
        except IntegrityError:
            raise Invalid(_NAME_TAKEN, attr="name", code="unique") from None

    async def edit_role(
        self, id: str, edit: Callable[[Role], Role], actor: Actor, now: datetime
    ) -> Role:
        def change(connection: Connection) -> Role:
            before = _lock_role(connection, id)
            after = edit(before)
            fields = _get_role_fields(after)
            connection.execute(
                update(roles).where(roles.c.id == id).values(**fields, updated_at=now)
            )
            item, was = (id, after.name), _get_role_fields(before)
            record_change(connection, ROLE_SCOPE, item, "updated", actor, now, was, fields)
            return after

        try:
            return await self._database.write(change)
        except IntegrityError:
            raise Invalid(_NAME_TAKEN, attr="name", code="unique") from None

    async def remove_role(self, id: str, actor: Actor, now: datetime) -> None:
        def change(connection: Connection) -> None:
            role = _lock_role(connection, id)
            of_role = project_members.c.role_id == id
            members = select(func.count(project_members.c.user_id.distinct())).where(of_role)
            if number := connection.execute(members).scalar():
                raise Conflict(f"{number} member(s) have this role. Give them another one first.")
            connection.execute(delete(roles).where(roles.c.id == id))
            before, item = _get_role_fields(role), (id, role.name)
            record_change(connection, ROLE_SCOPE, item, "deleted", actor, now, before)

        await self._database.write(change)

    async def add_invite(self, invite: Invite, actor: Actor) -> None:
        def change(connection: Connection) -> None:
            taken = select(users.c.id).where(users.c.email == invite.email)
            if connection.execute(taken).first() is not None:
                raise _email_taken()
            connection.execute(delete(invites).where(invites.c.email == invite.email))
            row = asdict(invite)
            row["project_roles"] = {str(id): role for id, role in invite.project_roles.items()}
            connection.execute(insert(invites), row)
            _record_invite(connection, invite, "created", actor, invite.created_at)

        await self._database.write(change)

    async def list_invites(self) -> list[Invite]:
        newest_first = select(invites).order_by(invites.c.created_at.desc(), invites.c.id)
        return await self._database.read(
            lambda connection: [_decode_invite(row) for row in connection.execute(newest_first)]
        )

    async def find_invite(self, *, hash: str = "", email: str = "") -> Invite | None:
        own = select(invites).where(or_(invites.c.hash == hash, invites.c.email == email))

        def run(connection: Connection) -> Invite | None:
            row = connection.execute(own).first()
            return None if row is None else _decode_invite(row)

        return await self._database.read(run)

    async def remove_invite(self, id: str, actor: Actor, now: datetime) -> None:
        def change(connection: Connection) -> None:
            own = select(invites).where(invites.c.id == id)
            row = connection.execute(own.with_for_update()).one_or_none()
            if row is None:
                raise NotFound
            connection.execute(delete(invites).where(invites.c.id == id))
            _record_invite(connection, _decode_invite(row), "deleted", actor, now)

        await self._database.write(change)

    async def accept_invite(self, invite: Invite, member: NewMember, now: datetime) -> int | None:
        """Add the person and end the invite. Return None if it was used already."""

        def change(connection: Connection) -> int | None:
            used = delete(invites).where(invites.c.id == invite.id)
            if not connection.execute(used).rowcount:
                return None
            actor = Actor(kind="user", id=None, name=member.first_name, email=member.email)
            return insert_user(connection, member, actor, now)

        try:
            return await self._database.write(change)
        except IntegrityError:
            raise _email_taken() from None


def _end_invites(connection: Connection, user: User) -> None:
    """End the invites of a person who may not invite any more."""
    connection.execute(delete(invites).where(invites.c.created_by == user.email))


def insert_user(connection: Connection, member: NewMember, actor: Actor, now: datetime) -> int:
    uuid = str(uuid4())
    id: int = connection.execute(
        insert(users)
        .values(
            uuid=uuid,
            organization_id=select(organizations.c.id).limit(1).scalar_subquery(),
            first_name=member.first_name,
            email=member.email,
            distinct_id=str(uuid4()),
            created_at=now,
            organization_role=member.organization_role,
            password_hash=member.password_hash,
        )
        .returning(users.c.id)
    ).scalar_one()
    _insert_project_roles(connection, id, member.project_roles)
    after, item = _read_audited(connection, id), (uuid, member.email)
    record_change(connection, USER_SCOPE, item, "created", actor, now, None, after)
    return id


def _insert_project_roles(
    connection: Connection, user_id: int, project_roles: Mapping[ProjectId, str]
) -> None:
    """Store roles in projects that exist, and that still exist."""
    if not project_roles:
        return
    ids = select(projects.c.id).where(projects.c.id.in_(project_roles) & ~is_deleted(projects.c.id))
    rows = [
        {"user_id": user_id, "project_id": id, "role_id": project_roles[ProjectId(id)]}
        for id in connection.execute(ids).scalars()
    ]
    if rows:
        connection.execute(insert(project_members), rows)


def _lock_user(connection: Connection, user: User) -> Mapping[str, Any]:
    """Lock all people, so that two changes at the same time leave an owner."""
    all_ids = select(users.c.id).order_by(users.c.id).with_for_update()
    if user.id not in connection.execute(all_ids).scalars().all():
        raise NotFound
    return _read_audited(connection, user.id)


def _check_other_owner(connection: Connection, user: User) -> None:
    others = (users.c.organization_role == "owner") & (users.c.id != user.id)
    if connection.execute(select(users.c.id).where(others).limit(1)).first() is None:
        raise Invalid(_LAST_OWNER, code="last_owner")


def _read_audited(connection: Connection, user_id: int) -> Mapping[str, Any]:
    row = connection.execute(select(users).where(users.c.id == user_id)).one()
    own = select(project_members).where(project_members.c.user_id == user_id)
    return {
        "first_name": row.first_name,
        "email": row.email,
        "organization_role": row.organization_role,
        "project_roles": {
            str(each.project_id): each.role_id
            for each in connection.execute(own.order_by(project_members.c.project_id))
        },
    }


def _lock_role(connection: Connection, id: str) -> Role:
    locked = select(roles).where(roles.c.id == id).with_for_update()
    row = connection.execute(locked).one_or_none()
    if row is None:
        raise NotFound
    return Role(id=row.id, name=row.name, scopes=frozenset(row.scopes))


def _get_role_fields(role: Role) -> dict[str, Any]:
    return {"name": role.name, "scopes": sorted(role.scopes)}


def _decode_invite(row: Row[Any]) -> Invite:
    found = Invite(**row._mapping)
    by_id = {ProjectId(int(id)): role for id, role in row.project_roles.items()}
    return replace(found, project_roles=by_id)


def _record_invite(
    connection: Connection, invite: Invite, what: str, actor: Actor, now: datetime
) -> None:
    fields = {
        "email": invite.email,
        "organization_role": invite.organization_role,
        "project_roles": {str(id): role for id, role in invite.project_roles.items()},
    }
    item = (invite.id, invite.email)
    before, after = (fields, None) if what == "deleted" else (None, fields)
    record_change(connection, INVITE_SCOPE, item, what, actor, now, before, after)


def _email_taken() -> Invalid:
    return Invalid("A member with this email exists already.", attr="email", code="unique")
