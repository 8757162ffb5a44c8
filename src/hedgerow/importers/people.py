"""Persons and groups as the events that make them what they are elsewhere. Pure.

A person is a `$set` with their properties, dated when they were first seen, and one
`$merge_dangerously` for each further id; a group is a `$groupidentify`. Their uuids are made of
what they say and of the walk through the source that says so: what is sent twice is stored once,
and a later walk has the last word, also where it says again what an earlier one said.

Whom this installation has met by itself is known better here: what the source says is then only
added where nothing is known (`$set_once`). Groups that were told of here are left alone.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from hashlib import sha256
from typing import Any
from uuid import UUID, uuid5

from hedgerow.lib import jsonio
from hedgerow.persons.group_changes import PROPERTIES
from hedgerow.persons.illegal import is_illegal

NAMESPACE = UUID("4f2a58f5-6a0c-4f0e-8a0e-3b6f7d1c9e25")
LIBRARY = "hedgerow-import"
# Who tells of groups, for an event must be somebody's.
CARRIER = "hedgerow-import"
# What the person there was made by says nothing here.
_OF_THERE = ("$creator_event_uuid",)


def ids_of(person: Mapping[str, Any]) -> list[str]:
    """The distinct ids that can be somebody's own here."""
    ids = person.get("distinct_ids")
    texts = [each for each in ids if isinstance(each, str)] if isinstance(ids, list) else []
    return [each for each in dict.fromkeys(texts) if not is_illegal(each)]


def person_events(person: Mapping[str, Any], met: Set[str], walk: str) -> list[dict[str, Any]]:
    """`met` are the ids of which this installation has events of its own; `walk` tells one walk
    through a source from another."""
    ids = ids_of(person)
    if not ids:
        return []
    # Whoever is merged gives way in what both know: the one who was met stays.
    main, *others = sorted(ids, key=lambda id: id not in met)
    given = person.get("properties")
    properties = {
        name: value
        for name, value in (given.items() if isinstance(given, Mapping) else ())
        if name not in _OF_THERE
    }
    told = {"$set_once" if not met.isdisjoint(ids) else "$set": properties} if properties else {}
    at = person.get("created_at")
    return [
        _event("$set", main, at, told, walk),
        *(_event("$merge_dangerously", main, at, {"alias": other}, walk) for other in others),
    ]


def group_event(group: Mapping[str, Any], type_name: str, walk: str) -> dict[str, Any] | None:
    key = group.get("group_key")
    if not isinstance(key, str) or not key:
        return None
    properties = group.get("group_properties")
    told = {
        "$group_type": type_name,
        "$group_key": key,
        "$group_set": dict(properties) if isinstance(properties, Mapping) else {},
    }
    return _event("$groupidentify", CARRIER, group.get("created_at"), told, walk)


def _event(
    name: str, distinct_id: str, at: Any, properties: Mapping[str, Any], walk: str
) -> dict[str, Any]:
    said = jsonio.canonical([walk, name, distinct_id, properties])
    event = {
        "event": name,
        "distinct_id": distinct_id,
        "uuid": str(uuid5(NAMESPACE, sha256(said).hexdigest())),
        "properties": {"$lib": LIBRARY, "$geoip_disable": True, **properties},
    }
    return event | ({"timestamp": at} if isinstance(at, str) else {})


def with_group_numbers(
    properties: Mapping[str, Any], numbers: Mapping[int, int]
) -> Mapping[str, Any]:
    """An event's properties that name its groups by the numbers that their types have here."""
    if properties.keys().isdisjoint(PROPERTIES):
        return properties
    made = {name: value for name, value in properties.items() if name not in PROPERTIES}
    for index, own in numbers.items():
        if (name := PROPERTIES[index]) in properties:
            made[PROPERTIES[own]] = properties[name]
    return made


def batches(
    events: Iterable[dict[str, Any]], most: int, most_bytes: int
) -> Iterable[Sequence[dict[str, Any]]]:
    """Events in portions that can be sent at once."""
    batch: list[dict[str, Any]] = []
    size = 0
    for event in events:
        bytes = len(jsonio.encode(event))
        if batch and (len(batch) >= most or size + bytes > most_bytes):
            yield batch
            batch, size = [], 0
        batch.append(event)
        size += bytes
    if batch:
        yield batch
