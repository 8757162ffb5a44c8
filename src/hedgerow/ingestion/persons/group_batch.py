"""The groups of one batch during processing."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from hedgerow.ingestion.persons.changes import GroupChange
from hedgerow.ingestion.persons.loaded_state import (
    MAX_GROUP_TEXT_CHARS,
    LoadedState,
)
from hedgerow.ingestion.persons.property_updates import apply_update
from hedgerow.lib import jsonio
from hedgerow.persons.model import MAX_GROUP_TYPES, normalize_group_text

GROUP_PROPERTIES = tuple(f"$group_{index}" for index in range(MAX_GROUP_TYPES))


class GroupBatch:
    def __init__(self, state: LoadedState) -> None:
        self._state = state
        self._types = dict(state.group_types)
        self._changed: dict[tuple[str, str], tuple[dict[str, Any], datetime]] = {}
        self.new_types: dict[str, int] = {}

    def find_index(self, group: tuple[str, str] | None) -> int | None:
        """Return the index of the type of a group, None if it has none."""
        return None if group is None else self._types.get(group[0])

    def assign_index(self, type_name: str) -> int | None:
        """Return the index of a group type. A new type gets a free index, None if there is none."""
        index = self._types.get(type_name)
        if index is None:
            taken = self._types.values()
            index = next((free for free in range(MAX_GROUP_TYPES) if free not in taken), None)
            if index is not None:
                self._types[type_name] = self.new_types[type_name] = index
        return index

    def add_group_properties(self, properties: dict[str, Any]) -> list[str]:
        """Add `$group_0` to `$group_4` for the `$groups` of an event. Returns the group types that
        exceed the limit."""
        groups = properties.get("$groups")
        if not isinstance(groups, dict):
            return []
        rejected = []
        for name, value in groups.items():
            type_name, key = normalize_group_text(name), normalize_group_text(value)
            if not type_name or not key or len(type_name) > MAX_GROUP_TEXT_CHARS:
                continue
            index = self.assign_index(type_name)
            if index is None:
                rejected.append(type_name)
            else:
                properties[GROUP_PROPERTIES[index]] = key
        return rejected

    def set_properties(
        self, type_name: str, key: str, to_set: Mapping[str, Any], at: datetime
    ) -> None:
        """Set properties of a group. Creates the group if it does not exist."""
        before = self._changed.get((type_name, key))
        if before is None and (stored := self._state.groups.get((type_name, key))):
            before = dict(stored.properties), stored.created_at
        if before is None:
            self._changed[type_name, key] = jsonio.replace_unstorable(dict(to_set)), at
            return
        properties, created_at = before
        after = apply_update(properties, to_set, {}, (), is_always_worth=True)
        if after is not None or at < created_at:
            self._changed[type_name, key] = (
                properties if after is None else after,
                min(at, created_at),
            )

    def list_changes(self) -> list[GroupChange]:
        return [
            GroupChange(
                is_new=(type_name, key) not in self._state.groups,
                type_index=self._types[type_name],
                key=key,
                properties=jsonio.encode(properties).decode(),
                created_at=created_at,
            )
            for (type_name, key), (properties, created_at) in self._changed.items()
        ]
