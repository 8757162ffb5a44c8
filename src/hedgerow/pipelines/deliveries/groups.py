"""Adds to routed events the groups they belong to, as of the time of routing."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from hedgerow.events.model import Event, EventKey
from hedgerow.lib import jsonio
from hedgerow.persons.model import normalize_group_text
from hedgerow.pipelines.store import GroupStore, LoadedGroups
from hedgerow.plugin.payload import RoutedEvent
from hedgerow.projects.model import ProjectId

# Searched in the encoded properties: most events have no groups and need not be decoded.
GROUPS_MARKER = '"$groups"'


async def add_groups(events: Iterable[Event], store: GroupStore) -> dict[EventKey, RoutedEvent]:
    """Return the events that have groups, with the stored properties of these groups."""
    with_groups = {
        (event.project_id, event.uuid): (event, keys_by_type)
        for event in events
        if GROUPS_MARKER in event.properties and (keys_by_type := _group_keys(event))
    }
    keys: dict[ProjectId, set[str]] = defaultdict(set)
    for event, keys_by_type in with_groups.values():
        keys[event.project_id].update(keys_by_type.values())
    loaded = {id: await store.groups(id, sorted(some)) for id, some in keys.items()}
    return {
        key: _build_routed_event(event, _encode_groups(keys_by_type, loaded[event.project_id]))
        for key, (event, keys_by_type) in with_groups.items()
    }


def _build_routed_event(event: Event, groups: str) -> RoutedEvent:
    return RoutedEvent(**msgspec.structs.asdict(event), groups=groups)


def _group_keys(event: Event) -> dict[str, str]:
    """Return the key of each group by its type."""
    groups: Any = jsonio.decode(event.properties).get("$groups")
    if not isinstance(groups, dict):
        return {}
    return {type: key for type, given in groups.items() if (key := normalize_group_text(given))}


def _encode_groups(keys_by_type: Mapping[str, str], loaded: LoadedGroups) -> str:
    groups = {
        type: {
            "index": loaded.types.get(type),
            "key": key,
            "properties": msgspec.Raw(loaded.properties.get((type, key), "{}").encode()),
        }
        for type, key in keys_by_type.items()
    }
    return jsonio.encode(groups).decode()
