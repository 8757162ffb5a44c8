"""Values of a login with a provider, and why one is refused."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, Protocol

from hedgerow.projects.model import ProjectId, User

MAX_SUBJECT_CHARS = 255
# How long a person may take at the provider.
LOGIN_TIME = timedelta(minutes=10)

# The login page shows a text for each.
Refusal = Literal[
    "login_expired",
    "login_canceled",
    "provider_failed",
    "too_many_attempts",
    "email_not_verified",
    "domain_not_allowed",
    "not_invited",
    "other_account",
    "password_needed",
]


class LoginRefused(Exception):
    """A person cannot log in with the provider. `detail` is for the log."""

    def __init__(self, code: Refusal, detail: str = "") -> None:
        super().__init__(detail or code)
        self.code: Refusal = code


class ProviderError(Exception):
    """The provider cannot be reached, or what it says is not valid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderConfig:
    """What the operator has set. `new_member_roles` is None if only invited people may join."""

    issuer: str
    client_id: str
    client_secret: str
    name: str
    scopes: str
    redirect_uri: str
    domains: Sequence[str]
    new_member_roles: Mapping[ProjectId, str] | None
    trusts_emails: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderRequest:
    method: Literal["GET", "POST"]
    url: str
    headers: Mapping[str, str]
    body: bytes = b""


class ProviderHttp(Protocol):
    async def fetch(self, request: ProviderRequest) -> tuple[int, bytes]:
        """Return the status and the body. Raises ProviderError, also for a long or late one."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderIdentity:
    """Whom the provider has authenticated. `email` is "" unless it may be trusted. `auth_time` is
    the claim of this name, unchecked."""

    subject: str
    email: str
    first_name: str
    auth_time: object = None


class IdentityStore(Protocol):
    """Implemented in `storage/people/`."""

    async def find_user_id(self, issuer: str, subject: str) -> int | None: ...
    async def add(self, issuer: str, subject: str, user: User, now: datetime) -> bool:
        """Connect a person with an identity. Return False if it has another one, or if the
        identity belongs to another person."""
        ...

    async def remove(self, user: User, now: datetime) -> bool:
        """Forget who a person is at the provider. Return False if nothing is known."""
        ...
