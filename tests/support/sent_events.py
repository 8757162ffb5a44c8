"""Events in the form that destinations receive."""

from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from hedgerow.events.model import Event, PersonMode
from hedgerow.lib import jsonio
from hedgerow.projects.model import ProjectId

AT = datetime(2026, 3, 29, 1, 30, 0, 123456, tzinfo=UTC)


def build_event(name: str = "bought", /, **properties: Any) -> Event:
    return Event(
        project_id=ProjectId(1),
        uuid=str(uuid4()),
        event=name,
        distinct_id="ann",
        properties=jsonio.encode(properties).decode(),
        elements_chain="",
        timestamp=AT,
        created_at=AT,
        person_id=str(uuid4()),
        person_created_at=AT,
        person_properties='{"name":"Ann"}',
        person_mode=PersonMode.FULL,
        historical_migration=False,
    )
