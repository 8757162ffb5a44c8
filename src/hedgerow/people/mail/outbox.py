"""The queue of mail. A request adds a row and never waits for the mail server; a background task
sends what is due, and tries again until the row expires.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, Protocol

from hedgerow.errors import Invalid, Unavailable
from hedgerow.lib.clock import Clock
from hedgerow.lib.encryption import Cipher, DecryptionError
from hedgerow.lib.tokens import hash_token
from hedgerow.people.attempts import LoginAttempts
from hedgerow.people.logins import Logins
from hedgerow.people.mail.messages import MailMessage, build_invite_message, build_reset_message
from hedgerow.people.members import IssuedInvite
from hedgerow.people.model import MAILED_RESET_TIME, Browser, build_url, parse_email
from hedgerow.projects.bootstrap import OWNER_EMAIL
from hedgerow.projects.directory import Directory

BATCH_SIZE = 5
# Longer than an attempt takes, so that no other process sends the same mail.
CLAIM_TIME = timedelta(minutes=2)
INITIAL_BACKOFF = timedelta(seconds=5)
MAX_BACKOFF = timedelta(minutes=15)
INVITE_MAIL_TIME = timedelta(hours=24)
# More would only arrive if someone asks for many accounts from many addresses.
MAX_WAITING = 10_000
RESET_WINDOW = timedelta(hours=1)
ACCOUNT_RESETS = 3
ADDRESS_RESETS = 20

MailKind = Literal["password_reset", "invite"]


class MailError(Exception):
    """The mail server did not accept a message. The text tells the operator why."""

    def __init__(self, reason: str, *, is_permanent: bool = False) -> None:
        super().__init__(reason)
        self.is_permanent = is_permanent


class MailTransport(Protocol):
    async def send(self, message: MailMessage) -> None:
        """Raises MailError. Ends within a minute."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedMail:
    """`details` are encrypted."""

    id: int
    kind: MailKind
    recipient: str
    details: str | None
    attempts: int
    expires_at: datetime


class MailStore(Protocol):
    """Implemented in `storage/people/`."""

    async def add(
        self,
        kind: MailKind,
        recipient: str,
        details: str | None,
        now: datetime,
        expires_at: datetime,
    ) -> None: ...
    async def count(self) -> int: ...
    async def claim(self, now: datetime, until: datetime, limit: int) -> Sequence[QueuedMail]:
        """Return what is due, and make it due again at `until`."""
        ...

    async def postpone(self, id: int, attempts: int, until: datetime) -> None: ...
    async def remove(self, id: int) -> None: ...


class Outbox:
    """`transport` is None if no mail server is set. `address` begins every link: a request could
    name another host. `on_failure` receives the kind and the reason of mail that is given up."""

    def __init__(
        self,
        store: MailStore,
        transport: MailTransport | None,
        address: str,
        load_cipher: Callable[[], Cipher],
        clock: Clock,
        on_failure: Callable[[MailKind, str], None],
    ) -> None:
        self._store = store
        self._transport = transport
        self._address = address
        self._load_cipher = load_cipher
        self._clock = clock
        self._on_failure = on_failure

    @property
    def is_enabled(self) -> bool:
        return self._transport is not None

    async def request_reset(
        self, email: str, browser: Browser, attempts: LoginAttempts, now: datetime
    ) -> None:
        """Queue a link for a new password. Whether there is such an account is found out when it
        is sent, so that nothing here depends on it."""
        if not self.is_enabled:
            raise Invalid(
                "Cannot reset passwords because email is not configured for your instance. Please "
                "contact your administrator.",
                code="email_not_available",
            )
        recipient = parse_email(email)
        limits = {
            f"reset {hash_token(recipient)}": ACCOUNT_RESETS,
            f"reset address {browser.group}": ADDRESS_RESETS,
        }
        excess = "too many requests for a new password"
        await attempts.count(limits, now, window=RESET_WINDOW, excess=excess)
        if await self._store.count() >= MAX_WAITING:
            raise Unavailable("Too much mail waits to be sent. Try again later.", retry_after_s=60)
        await self._store.add("password_reset", recipient, None, now, now + RESET_WINDOW)

    async def add_invite(self, issued: IssuedInvite, now: datetime) -> None:
        invite = issued.invite
        details = [build_url(self._address, "invite", issued.value), invite.created_by]
        encrypted = self._load_cipher().encrypt(details)
        await self._store.add("invite", invite.email, encrypted, now, now + INVITE_MAIL_TIME)

    async def send_due(self, logins: Logins, directory: Directory) -> None:
        """Send the mail that is due."""
        if self._transport is None:
            return
        now = self._clock()
        due = await self._store.claim(now, now + CLAIM_TIME, BATCH_SIZE)
        await asyncio.gather(*(self._send(each, logins, directory) for each in due))

    async def _send(self, mail: QueuedMail, logins: Logins, directory: Directory) -> None:
        assert self._transport is not None
        try:
            message = await self._build(mail, logins, directory)
            if message is not None:
                await self._transport.send(message)
        except MailError as error:
            attempts = mail.attempts + 1
            backoff = min(INITIAL_BACKOFF * (1 << min(attempts - 1, 20)), MAX_BACKOFF)
            again = self._clock() + backoff
            if not error.is_permanent and again < mail.expires_at:
                await self._store.postpone(mail.id, attempts, again)
                return
            self._on_failure(mail.kind, str(error))
        await self._store.remove(mail.id)

    async def _build(
        self, mail: QueuedMail, logins: Logins, directory: Directory
    ) -> MailMessage | None:
        """Return None if there is no one to send it to."""
        if mail.kind == "invite":
            try:
                link, inviter = self._load_cipher().decrypt(mail.details or "")
            except DecryptionError:
                raise MailError("The encryption key has changed.", is_permanent=True) from None
            return build_invite_message(mail.recipient, link, inviter)
        await directory.refresh()
        user = directory.find_user(email=mail.recipient)
        # Before the setup, the owner has an address that does not exist.
        if user is None or user.email == OWNER_EMAIL:
            return None
        token = await logins.issue_link(user, "reset", self._clock(), MAILED_RESET_TIME)
        return build_reset_message(user.email, build_url(self._address, "reset", token))
