"""What templates see of an event, and what is sent of it where there is no template."""

from datetime import UTC
from typing import Any

from hedgerow.events.model import Event
from hedgerow.lib import jsonio
from hedgerow.pipelines.routed import RoutedEvent


def payload_of(event: Event) -> dict[str, Any]:
    properties = jsonio.decode(event.properties) if event.properties else {}
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
        "groups": jsonio.decode(event.groups)
        if isinstance(event, RoutedEvent)
        else _named(properties),
        "project": {"id": event.project_id},
    }


def _named(properties: dict[str, Any]) -> dict[str, Any]:
    """Groups of which nothing but the names are known."""
    groups = properties.get("$groups")
    if not isinstance(groups, dict):
        return {}
    return {kind: {"index": None, "key": key, "properties": {}} for kind, key in groups.items()}
