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
    """The keys of a new installation in clear text. Those that are generated are shown once, those
    that are configured never. `setup_token` is that of the link with which the owner chooses its
    email and password, unless both are configured."""

    project_key: str
    personal_key: str
    is_project_key_configured: bool = False
    is_personal_key_configured: bool = False
    setup_token: str = ""
    owner_email: str = ""
    owner_password: str = ""

    @property
    def generated_personal_key(self) -> str | None:
        return None if self.is_personal_key_configured else self.personal_key

    def describe(self) -> str:
        """Return what a person is shown of the keys, in two lines."""
        project = (
            "as in HEDGEROW_BOOTSTRAP_PROJECT_KEY"
            if self.is_project_key_configured
            else f"{self.project_key}   public: for your apps"
        )
        personal = (
            "as in HEDGEROW_BOOTSTRAP_PERSONAL_KEY"
            if self.is_personal_key_configured
            else f"{self.personal_key}   secret: shown only once, store it now"
        )
        return f"  Project key   {project}\n  Personal key  {personal}"


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
        is_project_key_configured=bool(project_key),
        is_personal_key_configured=bool(personal_key),
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
