"""The groups of events that are to be delivered, as they are at that moment."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from hedgerow.events.model import Event, EventKey
from hedgerow.lib import jsonio
from hedgerow.persons.known import group_text
from hedgerow.pipelines.routed import RoutedEvent
from hedgerow.pipelines.store import GroupStore, KnownGroups
from hedgerow.projects.model import ProjectId

# Told from a text that has not been read yet, for most events have no groups.
MENTION = '"$groups"'


async def with_groups(events: Iterable[Event], store: GroupStore) -> dict[EventKey, RoutedEvent]:
    """Those that have groups, with what is known of these."""
    named = {
        (event.project_id, event.uuid): (event, names)
        for event in events
        if MENTION in event.properties and (names := _names(event))
    }
    keys: dict[ProjectId, set[str]] = defaultdict(set)
    for event, names in named.values():
        keys[event.project_id].update(names.values())
    known = {id: await store.groups(id, sorted(some)) for id, some in keys.items()}
    return {
        key: _routed(event, _told(names, known[event.project_id]))
        for key, (event, names) in named.items()
    }


def _routed(event: Event, groups: str) -> RoutedEvent:
    return RoutedEvent(**msgspec.structs.asdict(event), groups=groups)


def _names(event: Event) -> dict[str, str]:
    """The key of each group by its type."""
    groups: Any = jsonio.decode(event.properties).get("$groups")
    if not isinstance(groups, dict):
        return {}
    return {kind: key for kind, given in groups.items() if (key := group_text(given))}


def _told(names: Mapping[str, str], known: KnownGroups) -> str:
    groups = {
        kind: {
            "index": known.types.get(kind),
            "key": key,
            "properties": msgspec.Raw(known.properties.get((kind, key), "{}").encode()),
        }
        for kind, key in names.items()
    }
    return jsonio.encode(groups).decode()
