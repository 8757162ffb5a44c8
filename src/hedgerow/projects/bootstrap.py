"""The first start: what an empty installation gets, as values. storage/migrate.py writes them."""

from dataclasses import dataclass
from datetime import datetime
from uuid import uuid4

from hedgerow.projects.keys import KeyWish, draft_key, new_key_value
from hedgerow.projects.model import Organization, PersonalKey, User
from hedgerow.projects.projects import new_project_token
from hedgerow.projects.scopes import ALL
from hedgerow.projects.store import NewProject

OWNER_EMAIL = "owner@hedgerow.invalid"


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstKeys:
    """The keys of a new installation, in the clear: to be shown once."""

    project_key: str
    personal_key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    organization: Organization
    owner: User
    project: NewProject
    key: PersonalKey


def first_keys(project_key: str, personal_key: str) -> FirstKeys:
    """The keys that were asked for, or random ones."""
    return FirstKeys(
        project_key=project_key or new_project_token(),
        personal_key=personal_key or new_key_value(),
    )


def installation(keys: FirstKeys, now: datetime) -> Installation:
    organization = Organization(id=str(uuid4()), name="Hedgerow")
    owner = User(
        id=1,
        uuid=str(uuid4()),
        organization=organization,
        first_name="Owner",
        email=OWNER_EMAIL,
        distinct_id=str(uuid4()),
    )
    return Installation(
        organization=organization,
        owner=owner,
        project=NewProject(name="Default project", timezone="UTC", api_token=keys.project_key),
        key=draft_key(KeyWish(label="First key", scopes=(ALL,)), owner.id, keys.personal_key, now),
    )
