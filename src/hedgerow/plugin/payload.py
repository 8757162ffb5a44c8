"""The JSON payload of an event, which templates render from."""

from datetime import UTC
from typing import Any

from hedgerow.events.model import Event
from hedgerow.lib import jsonio
from hedgerow.lib.clock import format_iso

# The person of events that no person caused. No captured event has it.
NO_PERSON_ID = "00000000-0000-0000-0000-000000000000"
# As PostHog names its internal event for an entry of the activity log.
ACTIVITY_EVENT = "$activity_log_entry_created"


class RoutedEvent(Event, frozen=True, kw_only=True, array_like=True):
    """A stored event on its way to a destination, with its groups at the time of routing: later
    attempts send the same payload.

    `groups` is JSON: index, key and properties by group type.
    """

    groups: str


def is_message(event: Event) -> bool:
    """Whether the service itself sent the event, such as the firing of an alert. Its properties
    then have a `message` for people."""
    return event.person_id == NO_PERSON_ID


def is_activity(event: Event) -> bool:
    """Whether the event is the message about an entry of the activity log."""
    return event.event == ACTIVITY_EVENT and is_message(event)


def build_row(event: Event) -> dict[str, Any]:
    """Return the event as a row of a table. Properties are JSON text; times are ISO 8601 in UTC."""
    return {
        "project_id": event.project_id,
        "uuid": event.uuid,
        "event": event.event,
        "distinct_id": event.distinct_id,
        "timestamp": format_iso(event.timestamp),
        "created_at": format_iso(event.created_at),
        "properties": event.properties or "{}",
        "elements_chain": event.elements_chain,
        "person_id": event.person_id,
        "person_properties": event.person_properties or "{}",
    }


def build_payload(event: Event) -> dict[str, Any]:
    """Return the event with its person, groups and project, as templates see it."""
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
        else _groups_without_properties(properties),
        "project": {"id": event.project_id},
    }


def _groups_without_properties(properties: dict[str, Any]) -> dict[str, Any]:
    groups = properties.get("$groups")
    if not isinstance(groups, dict):
        return {}
    return {kind: {"index": None, "key": key, "properties": {}} for kind, key in groups.items()}
