"""An event as the event store keeps it."""

from datetime import datetime
from enum import StrEnum

import msgspec

from hedgerow.projects.model import ProjectId

# What no two events share.
EventKey = tuple[ProjectId, str]


class PersonMode(StrEnum):
    """Whether an event has a person: one of its own, none, or one that was there already although
    the event did not ask for any."""

    FULL = "full"
    PROPERTYLESS = "propertyless"
    FORCE_UPGRADE = "force_upgrade"


class Event(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """`properties` and `person_properties` are JSON text. `timestamp` is when it happened,
    `created_at` when it was accepted."""

    project_id: ProjectId
    uuid: str
    event: str
    distinct_id: str
    properties: str
    elements_chain: str
    timestamp: datetime
    created_at: datetime
    person_id: str
    person_created_at: datetime
    person_properties: str
    person_mode: PersonMode
    historical_migration: bool
