"""Passwords, second factors, sessions and password links of people, and counted attempts."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from typing import cast

from sqlalchemy import Connection, delete, func, insert, or_, select, update

from hedgerow.errors import AuthenticationFailed
from hedgerow.people.model import Credentials, NewMember, PasswordLink
from hedgerow.people.store import LoginStore
from hedgerow.projects.activity import Actor
from hedgerow.projects.model import LoginSession, User
from hedgerow.storage.engine import bulk, generations
from hedgerow.storage.engine.database import Database
from hedgerow.storage.people.user_activity import USER_SCOPE, record_change
from hedgerow.storage.tables import (
    invites,
    login_attempts,
    outgoing_mail,
    password_links,
    recovery_codes,
    sessions,
    users,
)

# The oldest sessions of a person end beyond it.
MAX_SESSIONS = 50


class SqlLoginStore(LoginStore):
    def __init__(self, database: Database) -> None:
        self._database = database

    async def count_attempt(
        self, limits: Mapping[str, int], until: datetime, now: datetime
    ) -> datetime | None:
        return await self._database.write(
            lambda connection: _count_attempt(connection, limits, until, now)
        )

    async def forgive_attempt(self, forgotten: Sequence[str], reduced: Sequence[str]) -> None:
        bucket = login_attempts.c.bucket

        def change(connection: Connection) -> None:
            # Sorted, as for counting.
            for each in sorted((*forgotten, *reduced)):
                own = bucket == each
                if each in forgotten:
                    connection.execute(delete(login_attempts).where(own))
                    continue
                some = own & (login_attempts.c.number > 0)
                fewer = {"number": login_attempts.c.number - 1}
                connection.execute(update(login_attempts).where(some).values(fewer))

        await self._database.write(change)

    async def find_credentials(self, email: str) -> Credentials | None:
        found = select(
            users.c.id.label("user_id"),
            users.c.password_hash,
            users.c.totp_secret,
            users.c.totp_pending,
        ).where(users.c.email == email)

        def run(connection: Connection) -> Credentials | None:
            row = connection.execute(found).one_or_none()
            return None if row is None else Credentials(**row._mapping)

        return await self._database.read(run)

    async def start_session(self, session: LoginSession, replaced: str | None, user: User) -> None:
        await self._database.write(
            lambda connection: insert_session(connection, session, replaced, user)
        )

    async def end_sessions(
        self, user: User, ids: Sequence[str], actor: Actor, now: datetime
    ) -> None:
        own = (sessions.c.user_id == user.id) & sessions.c.id.in_(ids)

        def change(connection: Connection) -> None:
            if connection.execute(delete(sessions).where(own)).rowcount:
                _record(connection, user, "logged_out", actor, now)

        await self._database.write(change)

    async def set_password(
        self, user: User, password_hash: str, kept_session: str | None, actor: Actor, now: datetime
    ) -> None:
        def change(connection: Connection) -> None:
            _set_password(connection, user.id, password_hash, kept_session)
            _record(connection, user, "password_changed", actor, now)

        await self._database.write(change)

    async def set_pending_totp(self, user_id: int, secret: str) -> None:
        pending = update(users).where(users.c.id == user_id).values(totp_pending=secret)
        await self._database.write(lambda connection: connection.execute(pending).close())

    async def enable_totp(
        self, user: User, step: int, codes: Sequence[str], actor: Actor, now: datetime
    ) -> bool:
        own = (users.c.id == user.id) & users.c.totp_pending.is_not(None)
        values = {"totp_secret": users.c.totp_pending, "totp_pending": None, "totp_step": step}

        def change(connection: Connection) -> bool:
            if not connection.execute(update(users).where(own).values(values)).rowcount:
                return False
            _replace_codes(connection, user.id, codes)
            _record(connection, user, "2fa_enabled", actor, now)
            return True

        return await self._database.write(change)

    async def disable_totp(self, user: User, actor: Actor, now: datetime) -> None:
        values = {"totp_secret": None, "totp_pending": None}

        def change(connection: Connection) -> None:
            connection.execute(update(users).where(users.c.id == user.id).values(values))
            _replace_codes(connection, user.id, ())
            _record(connection, user, "2fa_disabled", actor, now)

        await self._database.write(change)

    async def replace_recovery_codes(
        self, user: User, codes: Sequence[str], actor: Actor, now: datetime
    ) -> None:
        def change(connection: Connection) -> None:
            _replace_codes(connection, user.id, codes)
            _record(connection, user, "recovery_codes_replaced", actor, now)

        await self._database.write(change)

    async def count_recovery_codes(self, user_id: int) -> int:
        own = recovery_codes.c.user_id == user_id
        counted = select(func.count()).select_from(recovery_codes).where(own)
        return await self._database.read(
            lambda connection: connection.execute(counted).scalar_one()
        )

    async def use_totp_step(self, user_id: int, step: int) -> bool:
        unused = or_(users.c.totp_step.is_(None), users.c.totp_step < step)
        used = update(users).where((users.c.id == user_id) & unused).values(totp_step=step)
        return await self._database.write(
            lambda connection: bool(connection.execute(used).rowcount)
        )

    async def use_recovery_code(self, user_id: int, hash: str) -> bool:
        own = (recovery_codes.c.user_id == user_id) & (recovery_codes.c.hash == hash)
        used = delete(recovery_codes).where(own)
        return await self._database.write(
            lambda connection: bool(connection.execute(used).rowcount)
        )

    async def add_link(self, link: PasswordLink) -> None:
        await self._database.write(lambda connection: insert_link(connection, link))

    async def remove_link(self, hash: str) -> bool:
        used = delete(password_links).where(password_links.c.hash == hash)
        return await self._database.write(
            lambda connection: bool(connection.execute(used).rowcount)
        )

    async def find_link(self, hash: str, now: datetime) -> PasswordLink | None:
        found = select(password_links).where(
            (password_links.c.hash == hash) & (password_links.c.expires_at > now)
        )

        def run(connection: Connection) -> PasswordLink | None:
            row = connection.execute(found).one_or_none()
            return None if row is None else PasswordLink(**row._mapping)

        return await self._database.read(run)

    async def use_link(
        self,
        link: PasswordLink,
        user: User,
        password_hash: str,
        owner: NewMember | None,
        now: datetime,
    ) -> bool:
        def change(connection: Connection) -> bool:
            used = delete(password_links).where(password_links.c.hash == link.hash)
            if not connection.execute(used).rowcount:
                return False
            named, what = user, "password_changed"
            if owner is not None:
                names = {"email": owner.email, "first_name": owner.first_name}
                connection.execute(update(users).where(users.c.id == user.id).values(names))
                named, what = (
                    replace(user, email=owner.email, first_name=owner.first_name),
                    "set_up",
                )
            _set_password(connection, user.id, password_hash, None)
            actor = Actor(kind="user", id=named.uuid, name=named.first_name, email=named.email)
            _record(connection, named, what, actor, now)
            return True

        return await self._database.write(change)

    async def delete_expired(self, now: datetime, idle_time: timedelta) -> None:
        """Delete sessions, links, invites and counted attempts that are over."""
        is_over = or_(sessions.c.expires_at < now, sessions.c.last_used_at < now - idle_time)

        def change(connection: Connection) -> None:
            if connection.execute(delete(sessions).where(is_over)).rowcount:
                generations.advance(connection, "directory")
            for table in (password_links, invites, login_attempts, outgoing_mail):
                connection.execute(delete(table).where(table.c.expires_at < now))

        await self._database.write(change)


def insert_session(
    connection: Connection, session: LoginSession, replaced: str | None, user: User
) -> None:
    at = session.last_used_at
    # Locks the person: it may be removed at the same time.
    seen = update(users).where(users.c.id == user.id).values(last_login_at=at)
    if not connection.execute(seen).rowcount:
        raise AuthenticationFailed
    own = sessions.c.user_id == user.id
    newest = select(sessions.c.id).where(own).order_by(sessions.c.created_at.desc())
    kept = connection.execute(newest.limit(MAX_SESSIONS - 1)).scalars().all()
    connection.execute(delete(sessions).where(own & sessions.c.id.not_in(kept)))
    connection.execute(delete(sessions).where(sessions.c.id == replaced))
    connection.execute(insert(sessions), asdict(session))
    actor = Actor(kind="user", id=user.uuid, name=user.first_name, email=user.email)
    _record(connection, user, "logged_in", actor, at)


def insert_link(connection: Connection, link: PasswordLink) -> None:
    """Store a link. Earlier ones of the person for the same purpose end. Others stay: anyone can
    have a reset mailed, and must not end a link of the operator by it."""
    table = password_links
    own = (table.c.user_id == link.user_id) & (table.c.purpose == link.purpose)
    connection.execute(delete(table).where(own))
    connection.execute(insert(password_links), asdict(link))


def _count_attempt(
    connection: Connection, limits: Mapping[str, int], until: datetime, now: datetime
) -> datetime | None:
    # Sorted, so that no two transactions wait for each other.
    buckets = sorted(limits)
    new = [{"bucket": each, "number": 0, "expires_at": until} for each in buckets]
    bulk.insert_ignoring_conflicts(connection, login_attempts, new)
    for bucket in buckets:
        own = login_attempts.c.bucket == bucket
        row = connection.execute(select(login_attempts).where(own).with_for_update()).one()
        if row.expires_at <= now:
            again = {"number": 0, "expires_at": until}
            connection.execute(update(login_attempts).where(own).values(again))
        elif row.number >= limits[bucket]:
            return cast(datetime, row.expires_at)
    more = {"number": login_attempts.c.number + 1}
    connection.execute(
        update(login_attempts).where(login_attempts.c.bucket.in_(buckets)).values(more)
    )
    return None


def _set_password(
    connection: Connection, user_id: int, password_hash: str, kept_session: str | None
) -> None:
    changed = update(users).where(users.c.id == user_id).values(password_hash=password_hash)
    connection.execute(changed)
    own = (sessions.c.user_id == user_id) & (sessions.c.id != (kept_session or ""))
    connection.execute(delete(sessions).where(own))
    connection.execute(delete(password_links).where(password_links.c.user_id == user_id))


def _replace_codes(connection: Connection, user_id: int, codes: Sequence[str]) -> None:
    connection.execute(delete(recovery_codes).where(recovery_codes.c.user_id == user_id))
    if codes:
        rows = [{"user_id": user_id, "hash": each} for each in codes]
        connection.execute(insert(recovery_codes), rows)


def _record(connection: Connection, user: User, what: str, actor: Actor, now: datetime) -> None:
    record_change(connection, USER_SCOPE, (user.uuid, user.email), what, actor, now)
