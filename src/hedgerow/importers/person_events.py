"""Build the events that recreate persons and groups of a source. Pure.

A person becomes a `$set` with the properties, at the time of creation, and one
`$merge_dangerously` per further distinct id. A group becomes a `$groupidentify`. The uuid of an
event is a hash of its content and of the walk through the source: an event that is sent twice is
stored once, and a later walk overrides an earlier one.

A person who already has events here keeps their properties: the source only adds missing ones
(`$set_once`).
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from hashlib import sha256
from typing import Any
from uuid import UUID, uuid5

from hedgerow.ingestion.persons.blocked_ids import is_blocked_id
from hedgerow.ingestion.persons.group_batch import GROUP_PROPERTIES
from hedgerow.lib import jsonio

NAMESPACE = UUID("4f2a58f5-6a0c-4f0e-8a0e-3b6f7d1c9e25")
LIBRARY = "hedgerow-import"
# The distinct id of group events, because every event needs one.
GROUP_SENDER_ID = "hedgerow-import"
# Properties that have no meaning outside the source.
_SOURCE_ONLY_PROPERTIES = ("$creator_event_uuid",)


def list_distinct_ids(person: Mapping[str, Any]) -> list[str]:
    """Return the distinct ids of a person, without those that are blocked here."""
    ids = person.get("distinct_ids")
    texts = [each for each in ids if isinstance(each, str)] if isinstance(ids, list) else []
    return [each for each in dict.fromkeys(texts) if not is_blocked_id(each)]


def build_person_events(
    person: Mapping[str, Any], known_ids: Set[str], walk: str
) -> list[dict[str, Any]]:
    """`known_ids` are the distinct ids that already have events here. `walk` identifies one walk
    through the source."""
    ids = list_distinct_ids(person)
    if not ids:
        return []
    # A merge keeps the properties of the first id, so a known id comes first.
    main, *others = sorted(ids, key=lambda id: id not in known_ids)
    source_properties = person.get("properties")
    properties = {
        name: value
        for name, value in (
            source_properties.items() if isinstance(source_properties, Mapping) else ()
        )
        if name not in _SOURCE_ONLY_PROPERTIES
    }
    changes = (
        {"$set_once" if not known_ids.isdisjoint(ids) else "$set": properties} if properties else {}
    )
    at = person.get("created_at")
    return [
        _build_event("$set", main, at, changes, walk),
        *(_build_event("$merge_dangerously", main, at, {"alias": other}, walk) for other in others),
    ]


def build_group_event(group: Mapping[str, Any], type_name: str, walk: str) -> dict[str, Any] | None:
    key = group.get("group_key")
    if not isinstance(key, str) or not key:
        return None
    properties = group.get("group_properties")
    event_properties = {
        "$group_type": type_name,
        "$group_key": key,
        "$group_set": dict(properties) if isinstance(properties, Mapping) else {},
    }
    return _build_event(
        "$groupidentify", GROUP_SENDER_ID, group.get("created_at"), event_properties, walk
    )


def _build_event(
    name: str, distinct_id: str, at: Any, properties: Mapping[str, Any], walk: str
) -> dict[str, Any]:
    content = jsonio.encode_canonical([walk, name, distinct_id, properties])
    event = {
        "event": name,
        "distinct_id": distinct_id,
        "uuid": str(uuid5(NAMESPACE, sha256(content).hexdigest())),
        "properties": {"$lib": LIBRARY, "$geoip_disable": True, **properties},
    }
    return event | ({"timestamp": at} if isinstance(at, str) else {})


def translate_group_properties(
    properties: Mapping[str, Any], group_types: Mapping[int, int]
) -> Mapping[str, Any]:
    """Return an event's properties with the group type indexes of this project."""
    if properties.keys().isdisjoint(GROUP_PROPERTIES):
        return properties
    translated = {name: value for name, value in properties.items() if name not in GROUP_PROPERTIES}
    for index, own in group_types.items():
        if (name := GROUP_PROPERTIES[index]) in properties:
            translated[GROUP_PROPERTIES[own]] = properties[name]
    return translated


def split_batches(
    events: Iterable[dict[str, Any]], max_events: int, max_bytes: int
) -> Iterable[Sequence[dict[str, Any]]]:
    """Split events into batches for one request each."""
    batch: list[dict[str, Any]] = []
    size = 0
    for event in events:
        event_bytes = len(jsonio.encode(event))
        if batch and (len(batch) >= max_events or size + event_bytes > max_bytes):
            yield batch
            batch, size = [], 0
        batch.append(event)
        size += event_bytes
    if batch:
        yield batch
