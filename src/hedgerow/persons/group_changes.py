"""The groups of one batch while it is processed: types by their index, properties by their key."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from hedgerow.lib import jsonio
from hedgerow.persons.changes import GroupChange
from hedgerow.persons.known import MAX_GROUP_TEXT, Known, group_text
from hedgerow.persons.model import MAX_GROUP_TYPES
from hedgerow.persons.updates import updated

PROPERTIES = tuple(f"$group_{index}" for index in range(MAX_GROUP_TYPES))


class Groups:
    def __init__(self, known: Known) -> None:
        self._known = known
        self._types = dict(known.group_types)
        self._changed: dict[tuple[str, str], tuple[dict[str, Any], datetime]] = {}
        self.new_types: dict[str, int] = {}

    def index_of(self, type_name: str) -> int | None:
        """The index of a type, a new one's on its first use; None when all are taken."""
        index = self._types.get(type_name)
        if index is None:
            taken = self._types.values()
            index = next((free for free in range(MAX_GROUP_TYPES) if free not in taken), None)
            if index is not None:
                self._types[type_name] = self.new_types[type_name] = index
        return index

    def place(self, properties: dict[str, Any]) -> list[str]:
        """Name an event's groups by their indexes; the types for which there was no room."""
        given = properties.get("$groups")
        if not isinstance(given, dict):
            return []
        refused = []
        for name, value in given.items():
            type_name, key = group_text(name), group_text(value)
            if not type_name or not key or len(type_name) > MAX_GROUP_TEXT:
                continue
            index = self.index_of(type_name)
            if index is None:
                refused.append(type_name)
            else:
                properties[PROPERTIES[index]] = key
        return refused

    def put(self, type_name: str, key: str, to_set: Mapping[str, Any], at: datetime) -> None:
        """Lay properties over those that a group has, and make it if there is none."""
        before = self._changed.get((type_name, key))
        if before is None and (stored := self._known.groups.get((type_name, key))):
            before = dict(stored.properties), stored.created_at
        if before is None:
            self._changed[type_name, key] = jsonio.storable(dict(to_set)), at
            return
        properties, created_at = before
        after = updated(properties, to_set, {}, (), is_worth_all=True)
        if after is not None or at < created_at:
            self._changed[type_name, key] = (
                properties if after is None else after,
                min(at, created_at),
            )

    def changes(self) -> list[GroupChange]:
        return [
            GroupChange(
                is_new=(type_name, key) not in self._known.groups,
                type_index=self._types[type_name],
                key=key,
                properties=jsonio.encode(properties).decode(),
                created_at=created_at,
            )
            for (type_name, key), (properties, created_at) in self._changed.items()
        ]
