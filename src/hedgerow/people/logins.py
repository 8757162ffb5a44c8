"""Log in and out, change passwords, and manage second factors."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from hedgerow.errors import Invalid, Unavailable
from hedgerow.lib.encryption import Cipher, DecryptionError
from hedgerow.lib.tokens import generate_token, hash_token
from hedgerow.people import totp
from hedgerow.people.attempts import DEVICE_ATTEMPTS, AttemptBuckets, LoginAttempts
from hedgerow.people.model import (
    LINK_PREFIX,
    LOGIN_LINK_TIME,
    MAX_NAME_CHARS,
    RESET_TIME,
    SESSION_PREFIX,
    SESSION_TIME,
    SETUP_TIME,
    Browser,
    CodeRequired,
    Credentials,
    IssuedSession,
    NewMember,
    PasswordLink,
    Purpose,
    parse_email,
)
from hedgerow.people.passwords import PasswordHasher, check_new_password
from hedgerow.people.store import LoginStore
from hedgerow.projects.activity import Actor
from hedgerow.projects.directory import Directory
from hedgerow.projects.model import KEY_BITS, LoginSession, User
from hedgerow.projects.validation import validate_text

MAX_USER_AGENT_CHARS = 300
LINK_OVER = (
    "This link is not valid any more. Links work once, and for a limited time: get a new one."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginRequest:
    """`code` is one of the authenticator, or a recovery code; empty without."""

    email: str
    password: str
    code: str = ""


class Logins:
    def __init__(
        self,
        store: LoginStore,
        directory: Directory,
        hasher: PasswordHasher,
        load_cipher: Callable[[], Cipher],
    ) -> None:
        self._store = store
        self._directory = directory
        self._hasher = hasher
        self._load_cipher = load_cipher
        self.attempts = LoginAttempts(store, load_cipher)

    async def log_in(
        self, request: LoginRequest, browser: Browser, replaced: str | None, now: datetime
    ) -> IssuedSession:
        """Start a session. It replaces the session with the id `replaced`."""
        user = await self._authenticate(request, browser, now)
        return await self.start_session(user, browser, replaced, now)

    async def start_session(
        self,
        user: User,
        browser: Browser,
        replaced: str | None,
        now: datetime,
        lifetime: timedelta = SESSION_TIME,
        authenticated_at: datetime | None = None,
    ) -> IssuedSession:
        """Start a session of a person who has been authenticated, now or at another time."""
        value = generate_token(SESSION_PREFIX, KEY_BITS)
        session = LoginSession(
            id=generate_token("", 72),
            user_id=user.id,
            hash=hash_token(value),
            created_at=authenticated_at or now,
            last_used_at=now,
            expires_at=now + lifetime,
            address=browser.address,
            user_agent=browser.user_agent[:MAX_USER_AGENT_CHARS],
        )
        await self._store.start_session(session, replaced, user)
        await self._directory.refresh()
        credentials = await self._store.find_credentials(user.email)
        device = self.attempts.issue_device(user.email, credentials, browser, now)
        return IssuedSession(session=session, value=value, device=device)

    async def end_sessions(
        self, user: User, sessions: list[LoginSession], actor: Actor, now: datetime
    ) -> None:
        """End sessions. They are refused by all processes within a second."""
        await self._store.end_sessions(user, [each.id for each in sessions], actor, now)
        await self._directory.refresh()

    async def change_password(
        self,
        user: User,
        current: str,
        new: str,
        session: LoginSession,
        now: datetime,
    ) -> None:
        """Change the own password. Other sessions of the person end."""
        check_new_password(new, user.email)
        await self.attempts.count({f"session {session.id}": DEVICE_ATTEMPTS}, now)
        await self._compare(await self._store.find_credentials(user.email), current)
        hashed = await self._hasher.hash(new)
        actor = Actor(kind="user", id=user.uuid, name=user.first_name, email=user.email)
        await self._store.set_password(user, hashed, session.id, actor, now)
        await self._directory.refresh()

    async def set_password(self, user: User, new: str, actor: Actor, now: datetime) -> None:
        """Set the password of a person, on the command line. All its sessions end."""
        check_new_password(new, user.email)
        await self._store.set_password(user, await self._hasher.hash(new), None, actor, now)
        await self._directory.refresh()

    async def issue_link(
        self, user: User, purpose: Purpose, now: datetime, lifetime: timedelta | None = None
    ) -> str:
        """Return the token of a new link. Earlier ones for the same purpose end."""
        value = generate_token(LINK_PREFIX, KEY_BITS)
        await self._store.add_link(build_link(value, user.id, purpose, now, lifetime))
        return value

    async def use_login_link(
        self, token: str, browser: Browser, replaced: str | None, now: datetime
    ) -> IssuedSession:
        """Start a session with a link that the operator has printed."""
        link = await self._find_link(token, "login", now)
        user = await self._get_user(link.user_id)
        if not await self._store.remove_link(link.hash):
            raise _link_over()
        return await self.start_session(user, browser, replaced, now)

    async def _find_link(self, token: str, purpose: Purpose, now: datetime) -> PasswordLink:
        link = await self._store.find_link(hash_token(token), now)
        if link is None or link.purpose != purpose:
            raise _link_over()
        return link

    async def use_link(
        self,
        token: str,
        purpose: Purpose,
        password: str,
        *,
        email: str | None = None,
        first_name: str | None = None,
        now: datetime,
    ) -> User:
        """Set the password of the person whom the link belongs to. A setup link also names the
        owner. Raises Invalid if the link is over."""
        link = await self._find_link(token, purpose, now)
        user = await self._get_user(link.user_id)
        owner = None
        if email is not None:
            owner = NewMember(
                email=self._check_free(parse_email(email), user),
                first_name=validate_text("first_name", first_name or "", MAX_NAME_CHARS),
                organization_role="owner",
                project_roles={},
            )
        check_new_password(password, owner.email if owner else user.email)
        hashed = await self._hasher.hash(password)
        if not await self._store.use_link(link, user, hashed, owner, now):
            raise _link_over()
        return await self._get_user(user.id)

    def _check_free(self, email: str, user: User) -> str:
        other = self._directory.find_user(email=email)
        if other is not None and other.id != user.id:
            raise Invalid("A member with this email exists already.", attr="email", code="unique")
        return email

    async def begin_totp(self, user: User, issuer: str) -> tuple[str, str]:
        """Return a new secret, and its URI for authenticator apps. It counts after a code of it is
        confirmed."""
        secret = totp.generate_secret()
        await self._store.set_pending_totp(user.id, self._load_cipher().encrypt(secret))
        return secret, totp.build_uri(secret, user.email, issuer)

    async def confirm_totp(self, user: User, code: str, now: datetime) -> list[str]:
        """Enable two-factor authentication and return the recovery codes."""
        found = await self._store.find_credentials(user.email)
        pending = found.totp_pending if found else None
        step = None
        if pending is not None:
            step = totp.find_step(self._decrypt(pending), code.strip(), now)
        if step is None:
            raise _invalid_code()
        codes = totp.generate_recovery_codes()
        hashes = [totp.hash_recovery_code(each) for each in codes]
        actor = Actor(kind="user", id=user.uuid, name=user.first_name, email=user.email)
        if not await self._store.enable_totp(user, step, hashes, actor, now):
            raise _invalid_code()
        await self._directory.refresh()
        return codes

    async def replace_recovery_codes(self, user: User, actor: Actor, now: datetime) -> list[str]:
        if not user.has_totp:
            raise Invalid("Two-factor authentication is not enabled.", code="2fa_not_enabled")
        codes = totp.generate_recovery_codes()
        hashes = [totp.hash_recovery_code(each) for each in codes]
        await self._store.replace_recovery_codes(user, hashes, actor, now)
        return codes

    async def count_recovery_codes(self, user: User) -> int:
        return await self._store.count_recovery_codes(user.id)

    async def disable_totp(self, user: User, actor: Actor, now: datetime) -> None:
        await self._store.disable_totp(user, actor, now)
        await self._directory.refresh()

    async def _authenticate(self, request: LoginRequest, browser: Browser, now: datetime) -> User:
        found = await self._store.find_credentials(request.email.strip().lower())
        buckets = self.attempts.find_buckets(request.email, found, browser, now)
        await self.attempts.count(buckets.limits, now)
        credentials = await self._compare(found, request.password)
        if credentials.totp_secret is not None:
            await self._check_code(credentials, request.code.strip(), buckets, now)
        await self.attempts.forgive(buckets)
        return await self._get_user(credentials.user_id)

    async def _compare(self, credentials: Credentials | None, password: str) -> Credentials:
        """Compare the password. It takes the same time for all names."""
        stored = credentials.password_hash if credentials else None
        is_right = await self._hasher.verify(password, stored)
        if credentials is None or not is_right:
            raise _invalid_credentials()
        return credentials

    async def _check_code(
        self, credentials: Credentials, code: str, buckets: AttemptBuckets, now: datetime
    ) -> None:
        assert credentials.totp_secret is not None
        if not code:
            raise CodeRequired
        await self.attempts.count(buckets.codes, now)
        user_id = credentials.user_id
        if totp.is_totp_code(code):
            step = totp.find_step(self._decrypt(credentials.totp_secret), code, now)
            if step is not None and await self._store.use_totp_step(user_id, step):
                return
        elif await self._store.use_recovery_code(user_id, totp.hash_recovery_code(code)):
            return
        raise _invalid_code()

    async def _get_user(self, id: int) -> User:
        # Another process may just have added the person, or removed it.
        await self._directory.refresh()
        user = self._directory.find_user_by_id(id)
        if user is None:
            raise _invalid_credentials()
        return user

    def _decrypt(self, secret: str) -> str:
        try:
            return str(self._load_cipher().decrypt(secret))
        except DecryptionError:
            raise Unavailable(
                "The service cannot read the secret of your authenticator. Its operator must "
                "restore the encryption key. Until then, use a recovery code."
            ) from None


_LINK_TIMES: Mapping[Purpose, timedelta] = {
    "setup": SETUP_TIME,
    "reset": RESET_TIME,
    "login": LOGIN_LINK_TIME,
}


def build_link(
    value: str, user_id: int, purpose: Purpose, now: datetime, lifetime: timedelta | None = None
) -> PasswordLink:
    return PasswordLink(
        hash=hash_token(value),
        user_id=user_id,
        purpose=purpose,
        created_at=now,
        expires_at=now + (lifetime or _LINK_TIMES[purpose]),
    )


def _link_over() -> Invalid:
    return Invalid(LINK_OVER, attr="token", code="invalid_token")


def _invalid_credentials() -> Invalid:
    return Invalid("Invalid email or password.", code="invalid_credentials")


def _invalid_code() -> Invalid:
    return Invalid(
        "Invalid code. Codes of an authenticator and recovery codes work once.",
        attr="token",
        code="2fa_invalid",
    )
