"""The initial data of an empty installation. `storage/migrate.py` stores it."""

from dataclasses import dataclass
from datetime import datetime
from uuid import uuid4

from hedgerow.projects.keys import KeyRequest, build_key, generate_key_value
from hedgerow.projects.model import Organization, PersonalKey, User
from hedgerow.projects.projects import generate_project_token
from hedgerow.projects.scopes import ALL_SCOPES
from hedgerow.projects.store import NewProject

OWNER_EMAIL = "owner@hedgerow.invalid"


@dataclass(frozen=True, slots=True, kw_only=True)
class InitialKeys:
    """The keys of a new installation in clear text, shown once. `setup_token` is that of the link
    with which the owner chooses its email and password, unless both are configured."""

    project_key: str
    personal_key: str
    setup_token: str = ""
    owner_email: str = ""
    owner_password: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewInstallation:
    organization: Organization
    owner: User
    project: NewProject
    key: PersonalKey


def generate_initial_keys(project_key: str, personal_key: str) -> InitialKeys:
    """Return the configured keys, or random ones."""
    return InitialKeys(
        project_key=project_key or generate_project_token(),
        personal_key=personal_key or generate_key_value(),
    )


def build_installation(keys: InitialKeys, now: datetime) -> NewInstallation:
    organization = Organization(id=str(uuid4()), name="Hedgerow")
    owner = User(
        id=1,
        uuid=str(uuid4()),
        organization=organization,
        first_name="Owner",
        email=keys.owner_email or OWNER_EMAIL,
        distinct_id=str(uuid4()),
        created_at=now,
        organization_role="owner",
    )
    return NewInstallation(
        organization=organization,
        owner=owner,
        project=NewProject(name="Default project", timezone="UTC", api_token=keys.project_key),
        key=build_key(
            KeyRequest(label="First key", scopes=(ALL_SCOPES,)), owner.id, keys.personal_key, now
        ),
    )
