"""The names of the persons and groups that an event changes, by which readers wait for it."""

from collections.abc import Iterable, Mapping
from hashlib import blake2b

from hedgerow.ingestion.model import CapturedEvent
from hedgerow.ingestion.persons.loaded_state import (
    GROUP_IDENTIFY,
    MERGE_PROPERTIES,
    normalize_distinct_id,
    parse_group,
)
from hedgerow.projects.model import ProjectId

KEY_BYTES = 8


def collect_changed_names(events: Iterable[CapturedEvent]) -> set[str]:
    names: set[str] = set()
    for event in events:
        names.add(event.distinct_id)
        names.add(find_other_name(event))
    names.discard("")
    return names


def find_other_name(event: CapturedEvent) -> str:
    """Return the distinct id that an event merges with its own, or the name of the group that it
    sets, "" if there is none."""
    name = event.event
    if name in MERGE_PROPERTIES:
        merged = MERGE_PROPERTIES[name]
        return normalize_distinct_id(event.properties[merged]) if merged in event.properties else ""
    if name == GROUP_IDENTIFY and (group := parse_group(event.properties)):
        return group_name(group[1])
    return ""


def list_read_names(distinct_id: str, groups: Mapping[int, str]) -> list[str]:
    """Return the names that a reader of a person and groups waits for."""
    return [distinct_id, *map(group_name, groups.values())] if groups else [distinct_id]


def group_name(key: str) -> str:
    """Return the name of a group, whatever its type. It may equal a distinct id: then a reader
    waits without need, for a short time."""
    return f"$group:{key}"


def hash_name(name: str) -> int:
    """Return the hash of a name, for any project: a signed number of 64 bits."""
    digest = blake2b(name.encode("utf-8", "surrogatepass"), digest_size=KEY_BYTES).digest()
    return int.from_bytes(digest, signed=True)


def hash_in_project(project_id: ProjectId, name: str) -> int:
    """Return the key by which the database knows a name of a project."""
    return hash_name(name) ^ project_id
