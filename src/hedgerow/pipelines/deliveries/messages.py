"""Events that the service itself sends to destinations, such as the firing of an alert."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import uuid4

from hedgerow.events.model import Event, PersonMode
from hedgerow.lib import jsonio
from hedgerow.plugin.payload import NO_PERSON_ID
from hedgerow.projects.model import ProjectId


def name_sender(project_id: ProjectId) -> str:
    """Return the distinct id of messages, as PostHog names the sender of its internal events."""
    return f"team_{project_id}"


def build_message(
    project_id: ProjectId, name: str, properties: Mapping[str, Any], now: datetime
) -> Event:
    """`properties` have a `message`, which destinations for people show."""
    return Event(
        project_id=project_id,
        uuid=str(uuid4()),
        event=name,
        distinct_id=name_sender(project_id),
        properties=jsonio.encode(properties).decode(),
        elements_chain="",
        timestamp=now,
        created_at=now,
        person_id=NO_PERSON_ID,
        person_created_at=now,
        person_properties="{}",
        person_mode=PersonMode.PROPERTYLESS,
        historical_migration=False,
    )
