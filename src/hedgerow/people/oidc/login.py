"""Log in with a provider: begin in a browser, and end in the same browser, once.

What belongs to one login is in an encrypted cookie of the browser, so that no one else can end it:
neither with a stolen code, nor by sending a victim to a login of the attacker.
"""

import asyncio
import base64
import hashlib
import hmac
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from hedgerow.errors import Invalid, RateLimitExceeded
from hedgerow.lib.encryption import Cipher, DecryptionError
from hedgerow.lib.text import explain_unstorable
from hedgerow.lib.tokens import generate_token, hash_token
from hedgerow.people.attempts import AttemptBuckets
from hedgerow.people.logins import Logins
from hedgerow.people.members import Members
from hedgerow.people.model import MAX_NAME_CHARS, Browser, IssuedSession, parse_email
from hedgerow.people.oidc.model import (
    LOGIN_TIME,
    IdentityStore,
    LoginRefused,
    ProviderConfig,
    ProviderError,
    ProviderIdentity,
)
from hedgerow.people.oidc.provider import Provider
from hedgerow.projects.activity import Actor
from hedgerow.projects.directory import Directory
from hedgerow.projects.model import User

# Shorter than with a password: a person who is removed at the provider is out within this time.
PROVIDER_SESSION_TIME = timedelta(days=7)
ADDRESS_ATTEMPTS = 50
# All requests to the provider during one login.
EXCHANGE_TIMEOUT_S = 20.0
MAX_EXCHANGES = 20
MAX_NEXT_CHARS = 2000
_RANDOM_BITS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingLogin:
    """What a browser keeps between the beginning and the end of a login."""

    state: str
    nonce: str
    verifier: str
    next: str
    replaced: str | None
    began_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BegunLogin:
    """`url` is a page of the provider, `cookie` the encrypted PendingLogin."""

    url: str
    cookie: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedLogin:
    issued: IssuedSession
    next: str


class ProviderLogins:
    def __init__(  # noqa: PLR0913 - the services it joins
        self,
        config: ProviderConfig,
        provider: Provider,
        identities: IdentityStore,
        logins: Logins,
        members: Members,
        directory: Directory,
        load_cipher: Callable[[], Cipher],
    ) -> None:
        self._config = config
        self._provider = provider
        self._identities = identities
        self._logins = logins
        self._members = members
        self._directory = directory
        self._load_cipher = load_cipher
        self._exchanges = 0

    async def begin(self, next: str, replaced: str | None, now: datetime) -> BegunLogin:
        """Return the page of the provider. The session with the id `replaced` ends with the
        login."""
        try:
            metadata = await self._provider.get_metadata()
        except ProviderError as error:
            raise LoginRefused("provider_failed", str(error)) from None
        pending = PendingLogin(
            state=generate_token("", _RANDOM_BITS),
            nonce=generate_token("", _RANDOM_BITS),
            verifier=generate_token("", _RANDOM_BITS),
            next=check_next(next),
            replaced=replaced,
            began_at=now.timestamp(),
        )
        digest = hashlib.sha256(pending.verifier.encode()).digest()
        query = {
            "response_type": "code",
            "client_id": self._config.client_id,
            "redirect_uri": self._config.redirect_uri,
            "scope": self._config.scopes,
            "state": pending.state,
            "nonce": pending.nonce,
            "code_challenge": base64.urlsafe_b64encode(digest).rstrip(b"=").decode(),
            "code_challenge_method": "S256",
        }
        if replaced is not None:
            # Who is logged in already must prove again who it is.
            query |= {"prompt": "login", "max_age": "0"}
        endpoint = metadata.authorization_endpoint
        url = f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(query)}"
        return BegunLogin(url=url, cookie=self._load_cipher().encrypt(asdict(pending)))

    async def end(
        self, answer: Mapping[str, str], cookie: str, browser: Browser, now: datetime
    ) -> EndedLogin:
        """Log in the person whom the provider has authenticated. `answer` is the query with which
        the provider sent the browser back. Raises LoginRefused."""
        pending = self._read_pending(cookie, answer.get("state", ""), now)
        address = f"provider {browser.group}"
        try:
            await self._logins.attempts.count({address: ADDRESS_ATTEMPTS}, now)
        except RateLimitExceeded:
            raise LoginRefused("too_many_attempts") from None
        if not await self._logins.attempts.use_once(f"state {hash_token(pending.state)}", now):
            raise LoginRefused("login_expired", "The state was used before.")
        identity = await self._identify(answer, pending)
        user = await self._find_user(identity, pending, now)
        await self._logins.attempts.forgive(AttemptBuckets(limits={}, reduced=(address,)))
        issued = await self._logins.start_session(
            user,
            browser,
            pending.replaced,
            now,
            PROVIDER_SESSION_TIME,
            authenticated_at=_find_authentication_time(identity, now),
        )
        return EndedLogin(issued=issued, next=check_next(pending.next))

    def _read_pending(self, cookie: str, state: str, now: datetime) -> PendingLogin:
        try:
            pending = PendingLogin(**self._load_cipher().decrypt(cookie))
        except (DecryptionError, TypeError):
            raise LoginRefused("login_expired", "The browser began no login.") from None
        if not hmac.compare_digest(state.encode("utf-8", "replace"), pending.state.encode()):
            raise LoginRefused("login_expired", "The state is of another login.")
        if now.timestamp() - pending.began_at > LOGIN_TIME.total_seconds():
            raise LoginRefused("login_expired", "The login began too long ago.")
        return pending

    async def _identify(self, answer: Mapping[str, str], pending: PendingLogin) -> ProviderIdentity:
        if answer.get("error") or not answer.get("code"):
            raise LoginRefused("login_canceled", "The provider sent an error instead of a code.")
        if self._exchanges >= MAX_EXCHANGES:
            raise LoginRefused("too_many_attempts", "Too many logins wait for the provider.")
        self._exchanges += 1
        try:
            async with asyncio.timeout(EXCHANGE_TIMEOUT_S):
                await self._check_issuer(answer)
                claims = await self._provider.fetch_claims(
                    answer["code"], pending.verifier, pending.nonce
                )
        except TimeoutError:
            raise LoginRefused("provider_failed", "The provider is too slow.") from None
        except ProviderError as error:
            raise LoginRefused("provider_failed", str(error)) from None
        finally:
            self._exchanges -= 1
        return read_identity(claims, trusts_emails=self._config.trusts_emails)

    async def _check_issuer(self, answer: Mapping[str, str]) -> None:
        """Check who sent the browser back (RFC 9207)."""
        metadata, issuer = await self._provider.get_metadata(), answer.get("iss")
        if issuer != metadata.issuer and (issuer is not None or metadata.sends_issuer):
            raise ProviderError("Another issuer has sent the browser back.")

    async def _find_user(
        self, identity: ProviderIdentity, pending: PendingLogin, now: datetime
    ) -> User:
        await self._directory.refresh()
        id = await self._identities.find_user_id(self._config.issuer, identity.subject)
        if id is None or self._config.domains:
            self._check_email(identity.email)
        if id is None:
            return await self._connect_user(identity, pending, now)
        user = self._directory.find_user_by_id(id)
        if user is None:
            raise LoginRefused("login_expired", "The person has just been removed.")
        return user

    async def _connect_user(
        self, identity: ProviderIdentity, pending: PendingLogin, now: datetime
    ) -> User:
        """Find the person by its email, once. Later its identity counts, whatever the email."""
        user = self._directory.find_user(email=identity.email)
        if user is None:
            user = await self._add_user(identity, now)
        elif user.has_totp and not self._has_session(user, pending):
            raise LoginRefused("password_needed")
        if not await self._identities.add(self._config.issuer, identity.subject, user, now):
            raise LoginRefused("other_account", f"{user.email} has another identity.")
        return user

    def _check_email(self, email: str) -> None:
        if not email:
            raise LoginRefused("email_not_verified")
        domains = self._config.domains
        if domains and email.rpartition("@")[2] not in domains:
            raise LoginRefused("domain_not_allowed")

    def _has_session(self, user: User, pending: PendingLogin) -> bool:
        """Whether the person had logged in with its second factor when this login began."""
        sessions = self._directory.list_sessions(user.id)
        return any(each.id == pending.replaced for each in sessions)

    async def _add_user(self, identity: ProviderIdentity, now: datetime) -> User:
        name, email = identity.first_name, identity.email
        user = await self._members.accept_for(email, name, now)
        if user is not None:
            return user
        roles = self._config.new_member_roles
        if roles is None:
            raise LoginRefused("not_invited")
        actor = Actor(kind="user", id=None, name=name, email=email)
        try:
            return await self._members.add(
                email, name, "member", self._members.keep_known(roles), actor=actor, now=now
            )
        except Invalid as error:
            raise LoginRefused("login_expired", error.detail) from None


def read_identity(claims: Mapping[str, Any], *, trusts_emails: bool) -> ProviderIdentity:
    """Read whom the claims describe. An email counts if the provider has verified it."""
    given, is_verified = claims.get("email"), claims.get("email_verified")
    is_trusted = is_verified is True or (trusts_emails and is_verified is None)
    email = ""
    # Only ASCII: other letters may become those of someone else in lower case. And exactly as it
    # is: an address with a space or a line break around it may be that of someone else there.
    if is_trusted and isinstance(given, str) and given.isascii() and given == given.strip():
        try:
            email = parse_email(given)
        except Invalid:
            email = ""
    names = (claims.get("given_name"), claims.get("name"), email.partition("@")[0])
    name = next((each for each in names if _is_name(each)), "")
    return ProviderIdentity(
        subject=claims["sub"],
        email=email,
        first_name=str(name).strip()[:MAX_NAME_CHARS],
        auth_time=claims.get("auth_time"),
    )


def _find_authentication_time(identity: ProviderIdentity, now: datetime) -> datetime:
    """Return when the person proved to the provider who it is, if the provider says so. A session
    is as old as this, so that an open session there does not count as a login."""
    seconds = identity.auth_time
    if not isinstance(seconds, int | float) or not 0 < seconds < now.timestamp():
        return now
    return datetime.fromtimestamp(seconds, UTC)


def _is_name(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip()) and not explain_unstorable(value)


def check_next(path: str) -> str:
    """Return the page to show after the login: a path of our own, "/" for anything else."""
    is_own = path.startswith("/") and not path.startswith(("//", "/\\", "/api"))
    is_plain = path.isascii() and path.isprintable() and not set(path) & set("\\#")
    return path if is_own and is_plain and len(path) <= MAX_NEXT_CHARS else "/"
