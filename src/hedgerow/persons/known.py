"""What is known before a batch of events is processed: persons, groups and group types."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID, uuid5

import msgspec

from hedgerow.lib import jsonio
from hedgerow.lib.text import storable_text
from hedgerow.projects.model import ProjectId

# PostHog's: the same distinct id in the same project is the same person in both.
NAMESPACE = UUID("932979b4-65c3-4424-8467-0b66ec27bc22")
# Longer ids are cut where they arrive as an event's own, so elsewhere too.
MAX_ID = 200
MAX_GROUP_TEXT = 400

# By the event that brings it, the property that names the person to merge.
OTHER_ID = {
    "$identify": "$anon_distinct_id",
    "$create_alias": "alias",
    "$merge_dangerously": "alias",
}
GROUP_IDENTIFY = "$groupidentify"

GroupName = tuple[str, str]  # the name of the type, the key


class Happening(Protocol):
    """An event as far as persons and groups are concerned."""

    @property
    def uuid(self) -> str: ...
    @property
    def event(self) -> str: ...
    @property
    def distinct_id(self) -> str: ...
    @property
    def properties(self) -> Mapping[str, Any]: ...
    @property
    def timestamp(self) -> datetime: ...
    @property
    def ip(self) -> str: ...


class KnownPerson(msgspec.Struct, frozen=True, kw_only=True):
    id: int
    uuid: str
    properties: Mapping[str, Any]
    is_identified: bool
    created_at: datetime


class KnownGroup(msgspec.Struct, frozen=True, kw_only=True):
    properties: Mapping[str, Any]
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Mentioned:
    """Whom a batch is about."""

    distinct_ids: frozenset[str]
    groups: frozenset[GroupName]


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """`persons` by every distinct id that the batch mentions; the persons of one id are one object.
    `uuids` are the person ids of strangers: not always `person_uuid`, which may be somebody else's
    by now."""

    persons: Mapping[str, KnownPerson] = field(default_factory=dict)
    uuids: Mapping[str, str] = field(default_factory=dict)
    group_types: Mapping[str, int] = field(default_factory=dict)
    groups: Mapping[GroupName, KnownGroup] = field(default_factory=dict)


def person_uuid(project_id: ProjectId, distinct_id: str, attempt: int = 0) -> str:
    """The id of the person who is first seen by a distinct id."""
    name = f"{project_id}:{distinct_id}"
    return str(uuid5(NAMESPACE, f"{name}:{attempt}" if attempt else name))


def mentioned(events: Iterable[Happening]) -> Mentioned:
    ids: set[str] = set()
    groups: set[GroupName] = set()
    for event in events:
        ids.add(storable_text(event.distinct_id))
        name = OTHER_ID.get(event.event)
        if name and name in event.properties:
            ids.add(id_text(event.properties[name]))
        elif event.event == GROUP_IDENTIFY and (group := group_name(event.properties)):
            groups.add(group)
    return Mentioned(distinct_ids=frozenset(ids), groups=frozenset(groups))


def id_text(value: Any) -> str:
    """A distinct id among the properties, as it is written where it is an event's own."""
    text = value if isinstance(value, str) else jsonio.encode(jsonio.storable(value)).decode()
    return storable_text(text)[:MAX_ID]


def group_name(properties: Mapping[str, Any]) -> GroupName | None:
    """The group that an event is about, None where it does not say so in full."""
    kind = group_text(properties.get("$group_type"))
    key = group_text(properties.get("$group_key"))
    return (kind, key) if kind and key else None


def group_text(value: Any) -> str:
    """A group's type or key as text; empty for what cannot be one."""
    if isinstance(value, str):
        return storable_text(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return jsonio.encode(value).decode()
    return ""
