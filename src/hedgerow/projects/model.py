"""What the room is about, as values: projects, keys, people. Nothing here reads or writes."""

from dataclasses import dataclass
from datetime import datetime
from typing import NewType

ProjectId = NewType("ProjectId", int)
KeyId = NewType("KeyId", str)

PROJECT_KEY_PREFIX = "phc_"
PERSONAL_KEY_PREFIX = "phx_"
SECRET_KEY_PREFIX = "phs_"  # noqa: S105 - what secrets begin with is none
# 208 bits: above the 160 that make guessing hopeless, and about PostHog's length.
KEY_BITS = 208


@dataclass(frozen=True, slots=True, kw_only=True)
class Organization:
    id: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """The person behind personal keys. One owner per installation for now."""

    id: int
    uuid: str
    organization: Organization
    first_name: str
    email: str
    distinct_id: str


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
    # How long events are kept; None: for ever.
    retention_days: int | None = None
    # What may be shown of its secret keys; "": there is none.
    secret_mask: str = ""
    backup_secret_mask: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonalKey:
    """A personal key as it is stored: its hash and its mask, never its value."""

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

    @property
    def is_unrestricted(self) -> bool:
        return not self.project_ids

    def may_see(self, project_id: ProjectId) -> bool:
        return self.is_unrestricted or project_id in self.project_ids


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretKey:
    """A project's secret key as it is stored. It reads the definitions of flags and no more."""

    hash: str
    mask: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectToken:
    """A public project key. The current one never expires; a rotated one does."""

    value: str
    project_id: ProjectId
    expires_at: datetime | None

    def is_valid(self, now: datetime) -> bool:
        return self.expires_at is None or now < self.expires_at
