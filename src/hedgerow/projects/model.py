"""Projects, users and keys."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import IntEnum, StrEnum
from typing import Any, Literal, NewType

ProjectId = NewType("ProjectId", int)


def name_sender(project_id: ProjectId) -> str:
    """Return the name under which the work of a project shares what all projects use: see
    `hedgerow.lib.workers.sender`."""
    return f"project {project_id}"


KeyId = NewType("KeyId", str)

PROJECT_KEY_PREFIX = "phc_"
PERSONAL_KEY_PREFIX = "phx_"
SECRET_KEY_PREFIX = "phs_"  # noqa: S105 - a prefix, not a secret
# 208 bits: more than the 160 needed against guessing, and about the length of PostHog's keys.
KEY_BITS = 208

OrganizationRole = Literal["owner", "member"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Organization:
    id: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """A named set of scopes, which a member of the organization has in a project."""

    id: str
    name: str
    scopes: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """A person. An owner of the organization may do everything, a member what its roles in the
    projects allow."""

    id: int
    uuid: str
    organization: Organization
    first_name: str
    email: str
    distinct_id: str
    created_at: datetime
    organization_role: OrganizationRole
    project_roles: Mapping[ProjectId, Role] = field(default_factory=dict)
    has_password: bool = False
    has_totp: bool = False
    last_login_at: datetime | None = None

    @property
    def is_owner(self) -> bool:
        return self.organization_role == "owner"

    def may_see(self, project_id: ProjectId) -> bool:
        return self.is_owner or project_id in self.project_roles


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginSession:
    """A person who has logged in with a browser. Only the hash of its token is stored."""

    id: str
    user_id: int
    hash: str
    created_at: datetime
    last_used_at: datetime
    expires_at: datetime
    address: str
    user_agent: str


class SchemaMode(StrEnum):
    """What happens to an event that breaks its schema: nothing, a warning, or a dead letter."""

    OFF = "off"
    WARN = "warn"
    REJECT = "reject"


class WeekStart(IntEnum):
    """The day on which a week begins, with PostHog's numbers."""

    SUNDAY = 0
    MONDAY = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    id: ProjectId
    uuid: str
    organization_id: str
    name: str
    timezone: str
    api_token: str
    created_at: datetime
    updated_at: datetime
    # The retention period of events; None keeps them forever.
    retention_days: int | None = None
    # Property filters that the events of real users match.
    test_account_filters: Sequence[Mapping[str, Any]] = ()
    # For the events whose definition does not say it.
    schema_mode: SchemaMode = SchemaMode.WARN
    week_start_day: WeekStart = WeekStart.SUNDAY
    # The masks of its secret keys; empty without one.
    secret_mask: str = ""
    backup_secret_mask: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonalKey:
    """A stored personal API key: its hash and mask, never its value."""

    id: KeyId
    user_id: int
    label: str
    hash: str
    mask: str
    scopes: tuple[str, ...]
    project_ids: tuple[ProjectId, ...]
    created_at: datetime
    last_used_at: datetime | None
    last_rolled_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretKey:
    """A stored secret key of a project. It only permits reading flag definitions."""

    hash: str
    mask: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectToken:
    """A public project token. The current one never expires; a rotated one does."""

    value: str
    project_id: ProjectId
    expires_at: datetime | None

    def is_valid(self, now: datetime) -> bool:
        return self.expires_at is None or now < self.expires_at
