"""The names of the persons and groups that an event changes, by which readers wait for it."""

from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from itertools import islice

from hedgerow.ingestion.model import CapturedEvent
from hedgerow.ingestion.persons.loaded_state import (
    GROUP_IDENTIFY,
    MERGE_PROPERTIES,
    normalize_distinct_id,
    parse_group,
)
from hedgerow.persons.model import normalize_group_text
from hedgerow.projects.model import ProjectId

KEY_BYTES = 8
GROUPS = "$groups"
GROUP_TYPE_PREFIX = "$group_type:"
# Of one event. A project has at most five group types.
MAX_GROUP_TYPE_NAMES = 20


def collect_changed_names(events: Iterable[CapturedEvent]) -> set[str]:
    names: set[str] = set()
    for event in events:
        names.add(event.distinct_id)
        names.update(list_other_names(event))
    return names


def list_other_names(event: CapturedEvent) -> Iterator[str]:
    """Yield the distinct id that an event merges with its own, the group that it sets, and the
    group types that it may create."""
    name, properties = event.event, event.properties
    merged = MERGE_PROPERTIES.get(name)
    if merged in properties and (other := normalize_distinct_id(properties[merged])):
        yield other
    elif name == GROUP_IDENTIFY and (group := parse_group(properties)):
        yield group_type_name(group[0])
        yield group_name(group[1])
    groups = properties.get(GROUPS)
    if isinstance(groups, dict):
        for group_type in islice(groups, MAX_GROUP_TYPE_NAMES):
            yield group_type_name(normalize_group_text(group_type))


def list_read_names(distinct_id: str, groups: Mapping[int, str]) -> list[str]:
    """Return the names that a reader of a person and groups waits for."""
    return [distinct_id, *map(group_name, groups.values())] if groups else [distinct_id]


def group_name(key: str) -> str:
    """Return the name of a group, whatever its type. It may equal a distinct id: then a reader
    waits without need, for a short time."""
    return f"$group:{key}"


def group_type_name(group_type: str) -> str:
    return f"{GROUP_TYPE_PREFIX}{group_type}"


def hash_name(name: str) -> int:
    """Return the hash of a name, for any project: a signed number of 64 bits. PostgreSQL computes
    the same one (`storage/ingestion/unprocessed_ids.py`)."""
    digest = sha256(name.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:KEY_BYTES], signed=True)


def hash_in_project(project_id: ProjectId, name: str) -> int:
    """Return the key by which the database knows a name of a project."""
    return hash_name(name) ^ project_id
