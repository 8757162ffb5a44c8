"""What templates see of an event, and what is sent of it where there is no template."""

from datetime import UTC
from typing import Any

from hedgerow.events.model import Event
from hedgerow.kit import jsonio


def payload_of(event: Event) -> dict[str, Any]:
    properties = jsonio.decode(event.properties) if event.properties else {}
    groups = properties.get("$groups")
    return {
        "event": {
            "uuid": event.uuid,
            "event": event.event,
            "distinct_id": event.distinct_id,
            "timestamp": event.timestamp.astimezone(UTC).isoformat(),
            "properties": properties,
            "elements_chain": event.elements_chain,
        },
        "person": {
            "id": event.person_id,
            "properties": jsonio.decode(event.person_properties) if event.person_properties else {},
        },
        "groups": {kind: {"key": key} for kind, key in groups.items()}
        if isinstance(groups, dict)
        else {},
        "project": {"id": event.project_id},
    }
