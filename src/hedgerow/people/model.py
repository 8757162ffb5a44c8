"""Values of people: credentials, sessions, links, invites, and changes of members."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from hedgerow.errors import AppError, Forbidden, Invalid
from hedgerow.lib.text import is_plain_email
from hedgerow.projects.model import LoginSession, OrganizationRole, ProjectId

SESSION_PREFIX = "hgs_"
LINK_PREFIX = "hgl_"
INVITE_PREFIX = "hgi_"
SESSION_TIME = timedelta(days=90)
SETUP_TIME = timedelta(hours=24)
RESET_TIME = timedelta(hours=24)
# Of a link that is sent by mail.
MAILED_RESET_TIME = timedelta(hours=1)
LOGIN_LINK_TIME = timedelta(minutes=15)
INVITE_TIME = timedelta(days=7)
# For keys, members and secrets a person must have logged in within this time.
RECENT_LOGIN_TIME = timedelta(minutes=10)
MAX_EMAIL_CHARS = 254
MAX_NAME_CHARS = 150

Purpose = Literal["setup", "reset", "login"]


class CodeRequired(AppError):
    """The password is right, and the account has two-factor authentication."""

    status, type, code = 401, "authentication_error", "2fa_required"
    default_detail = (
        "2FA is required. Send the code of your authenticator, or a recovery code, as `token`."
    )


class LoginNotRecent(Forbidden):
    """The session is too old for this action."""

    status = Forbidden.status
    type = Forbidden.type
    code = "login_not_recent"
    default_detail = (
        "This action requires you to be recently authenticated. Log in again: you have 10 minutes."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """What a person logs in with. `totp_secret` is encrypted."""

    user_id: int
    password_hash: str | None
    totp_secret: str | None
    totp_pending: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Browser:
    """Where a person logs in from. `group` is what counts as one address for limits, `device` what
    the browser kept of an earlier login."""

    address: str
    group: str
    user_agent: str
    device: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuedSession:
    """A session with its token, which cannot be read later."""

    session: LoginSession
    value: str
    device: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PasswordLink:
    """A link with which a person chooses a password, once. Only the hash of its token is stored."""

    hash: str
    user_id: int
    purpose: Purpose
    created_at: datetime
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Invite:
    """An invitation. `project_roles` are the ids of roles."""

    id: str
    hash: str
    email: str
    first_name: str
    organization_role: OrganizationRole
    project_roles: Mapping[ProjectId, str]
    created_by: str
    created_at: datetime
    expires_at: datetime
    is_mailed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NewMember:
    """A person to add, without a session."""

    email: str
    first_name: str
    organization_role: OrganizationRole
    project_roles: Mapping[ProjectId, str]
    password_hash: str | None = None


def build_url(address: str, kind: Literal["setup", "reset", "login", "invite"], token: str) -> str:
    """Return a link that a person opens. Browsers do not send the part after #, so that the token
    is in no log."""
    return f"{address}/#{kind}={token}"


def parse_email(text: str, attr: str = "email") -> str:
    """Return the email in lower case, as it is stored, without spaces around it. Raises Invalid."""
    email = text.strip(" ").lower()
    if not is_plain_email(email):
        raise Invalid("Enter a valid email address.", attr=attr)
    if len(email) > MAX_EMAIL_CHARS:
        raise Invalid(
            f"Ensure this field has no more than {MAX_EMAIL_CHARS} characters.",
            attr=attr,
            code="max_length",
        )
    return email
