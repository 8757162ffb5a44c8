"""An event as it is stored."""

from datetime import datetime
from enum import StrEnum

import msgspec

from hedgerow.projects.model import ProjectId

# The unique key of an event.
EventKey = tuple[ProjectId, str]


class PersonMode(StrEnum):
    """Whether an event has a person profile: FULL, none (PROPERTYLESS), or an existing one although
    the event did not request it (FORCE_UPGRADE)."""

    FULL = "full"
    PROPERTYLESS = "propertyless"
    FORCE_UPGRADE = "force_upgrade"


# The W3C trace context of the request that sent an event, if the service exports traces.
TRACEPARENT = "$traceparent"


class Event(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """An event as the event store holds it, with exactly the inserted columns in this order.
    `properties` and `person_properties` are JSON text. `timestamp` is when the event happened,
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
