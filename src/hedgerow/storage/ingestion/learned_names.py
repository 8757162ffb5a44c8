"""Save what workers learn about events and properties. Several workers save at the same time, so
each statement adds to what is stored, in the order of the names.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar
from uuid import uuid4

from sqlalchemy import Connection, Table, func, select

from hedgerow.definitions.model import (
    MAX_EVENT_PROPERTIES,
    MAX_EVENTS,
    MAX_PROPERTIES,
    EventSchemaMode,
)
from hedgerow.definitions.store import LearnedEvent, LearnedNames, LearnedProperty, PropertyKey
from hedgerow.ingestion.model import IngestionWarning
from hedgerow.projects.model import ProjectId
from hedgerow.storage import tables
from hedgerow.storage.engine import bulk
from hedgerow.storage.ingestion import ingestion_warnings
from hedgerow.storage.projects.deletions import read_deleted

K = TypeVar("K")

LIMIT_WARNING = "definition_limit_reached"

_EVENT_COLUMNS = (
    *("uuid", "project_id", "name", "first_seen_at", "last_seen_at", "number", "created_at"),
)
_SPAN = """
    first_seen_at = CASE WHEN {t}.first_seen_at < excluded.first_seen_at
        THEN {t}.first_seen_at ELSE excluded.first_seen_at END,
    last_seen_at = CASE WHEN {t}.last_seen_at > excluded.last_seen_at
        THEN {t}.last_seen_at ELSE excluded.last_seen_at END
"""
_INSERT_EVENTS = f"""
INSERT INTO event_definitions (id, project_id, name, first_seen_at, last_seen_at, volume_30_day,
    created_at, updated_at, description, tags, verified, hidden, schema_mode)
SELECT r.uuid, r.project_id, r.name, r.first_seen_at, r.last_seen_at, r.number,
    r.created_at, r.created_at, '', '[]', FALSE, FALSE, '{EventSchemaMode.PROJECT}'
FROM {{rows}} WHERE TRUE
ON CONFLICT (project_id, name) DO UPDATE SET {_SPAN.format(t="event_definitions")},
"""  # noqa: S608 - our own names
_ADD_EVENTS = (
    _INSERT_EVENTS + " volume_30_day = event_definitions.volume_30_day + excluded.volume_30_day"
)
_SET_EVENTS = _INSERT_EVENTS + " volume_30_day = excluded.volume_30_day"
_PROPERTY_COLUMNS = (
    *("uuid", "project_id", "type", "type_index", "name", "property_type"),
    *("first_seen_at", "last_seen_at", "created_at"),
)
# The first type stays.
_ADD_PROPERTIES = f"""
INSERT INTO property_definitions (id, project_id, type, group_type_index, name, property_type,
    first_seen_at, last_seen_at, created_at, updated_at, description, tags, verified, hidden)
SELECT r.uuid, r.project_id, r.type, r.type_index, r.name, r.property_type,
    r.first_seen_at, r.last_seen_at, r.created_at, r.created_at, '', '[]', FALSE, FALSE
FROM {{rows}} WHERE TRUE
ON CONFLICT (project_id, type, group_type_index, name) DO UPDATE SET
    property_type = coalesce(property_definitions.property_type, excluded.property_type),
    {_SPAN.format(t="property_definitions")}
"""  # noqa: S608
_PAIR_COLUMNS = ("project_id", "event", "property")
_ADD_PAIRS = """
INSERT INTO event_properties (project_id, event, property)
SELECT r.project_id, r.event, r.property FROM {rows} WHERE TRUE ON CONFLICT DO NOTHING
"""


def save_learned(connection: Connection, learned: LearnedNames, now: datetime) -> None:
    events, properties = _by_project(learned.events), _by_project(learned.properties)
    pairs: dict[ProjectId, list[tuple[str, str]]] = defaultdict(list)
    for project_id, event, name in learned.pairs:
        pairs[project_id].append((event, name))
    deleted = read_deleted(connection, list(events))
    for project_id in sorted(events.keys() - deleted):
        _save_events(connection, project_id, events[project_id], now)
        if project_id in properties:
            _save_properties(connection, project_id, properties[project_id], now)
        _save_pairs(connection, project_id, sorted(pairs[project_id]))


def _by_project(learned: Mapping[tuple[ProjectId, Any], K]) -> dict[ProjectId, dict[Any, K]]:
    found: dict[ProjectId, dict[Any, K]] = defaultdict(dict)
    for (project_id, key), value in sorted(learned.items()):
        found[project_id][key] = value
    return found


def _save_events(
    connection: Connection, project_id: ProjectId, events: Mapping[str, LearnedEvent], now: datetime
) -> None:
    known = "SELECT name FROM event_definitions WHERE project_id = ? AND name IN ({texts})"
    old = {name for (name,) in bulk.select(connection, known, project_id, list(events))}
    kept = _keep_limit(
        connection, project_id, tables.event_definitions, MAX_EVENTS, events, old, now
    )
    bulk.execute_many(connection, _ADD_EVENTS, _EVENT_COLUMNS, _rows(project_id, events, kept, now))


def _rows(
    project_id: ProjectId, events: Mapping[str, LearnedEvent], names: Iterable[str], now: datetime
) -> list[tuple[Any, ...]]:
    return [
        (
            *(str(uuid4()), project_id, name),
            *(events[name].first_seen_at, events[name].last_seen_at, events[name].number, now),
        )
        for name in names
    ]


def _save_properties(
    connection: Connection,
    project_id: ProjectId,
    properties: Mapping[PropertyKey, LearnedProperty],
    now: datetime,
) -> None:
    known = (
        "SELECT type, group_type_index, name FROM property_definitions"
        " WHERE project_id = ? AND name IN ({texts})"
    )
    names = list({key.name for key in properties})
    old = {PropertyKey(*row) for row in bulk.select(connection, known, project_id, names)}
    table = tables.property_definitions
    kept = _keep_limit(connection, project_id, table, MAX_PROPERTIES, properties, old, now)
    rows = [
        (
            *(str(uuid4()), project_id, key.kind.value, key.group_type_index, key.name),
            seen.property_type.value if seen.property_type else None,
            *(seen.first_seen_at, seen.last_seen_at, now),
        )
        for key in kept
        for seen in (properties[key],)
    ]
    bulk.execute_many(connection, _ADD_PROPERTIES, _PROPERTY_COLUMNS, rows)


def _save_pairs(
    connection: Connection, project_id: ProjectId, pairs: Sequence[tuple[str, str]]
) -> None:
    table = tables.event_properties
    if not pairs or count_rows(connection, table, project_id) + len(pairs) > MAX_EVENT_PROPERTIES:
        return
    rows = [(project_id, *pair) for pair in pairs]
    bulk.execute_many(connection, _ADD_PAIRS, _PAIR_COLUMNS, rows)


def count_rows(connection: Connection, table: Table, project_id: ProjectId) -> int:
    query = select(func.count()).select_from(table).where(table.c.project_id == project_id)
    return connection.execute(query).scalar_one()


def _keep_limit(  # noqa: PLR0913 - what to count, and where to warn
    connection: Connection,
    project_id: ProjectId,
    table: Table,
    limit: int,
    learned: Iterable[K],
    old: set[K],
    now: datetime,
) -> list[K]:
    """Return the known names, and as many of the others as the project may have."""
    new = [key for key in learned if key not in old]
    free = limit - count_rows(connection, table, project_id) if new else 0
    if len(new) > free:
        _warn(connection, project_id, table, limit, now)
    kept = old.union(new[: max(0, free)])
    return [key for key in learned if key in kept]


def _warn(
    connection: Connection, project_id: ProjectId, table: Table, limit: int, now: datetime
) -> None:
    """Warn once a day at most: the cause is usually a name in each event."""
    warnings = tables.ingestion.ingestion_warnings
    detail = (
        f"The project has {limit:,} {table.name.replace('_', ' ')}, which is the limit. New names "
        "are not recorded; the events themselves are stored. Delete definitions that you do not "
        "need, and put variable parts of names into values."
    )
    earlier = select(func.max(warnings.c.created_at)).where(
        (warnings.c.project_id == project_id) & (warnings.c.detail == detail)
    )
    last = connection.execute(earlier).scalar()
    if last is None or (now - last).days >= 1:
        warning = IngestionWarning(type=LIMIT_WARNING, detail=detail)
        ingestion_warnings.add_warnings(connection, project_id, [warning], now)


def set_volumes(
    connection: Connection, project_id: ProjectId, events: Mapping[str, LearnedEvent], now: datetime
) -> None:
    if read_deleted(connection, [project_id]):
        return
    known = "SELECT name FROM event_definitions WHERE project_id = ?"
    old = {name for (name,) in bulk.select(connection, known, project_id)}
    silent = [name for name in old if name not in events]
    reset = (
        "UPDATE event_definitions SET volume_30_day = 0"
        " WHERE project_id = ? AND volume_30_day <> 0 AND name IN ({texts})"
    )
    bulk.execute(connection, reset, project_id, sorted(silent))
    listed = sorted(events)
    kept = [name for name in listed if name in old]
    kept += [name for name in listed if name not in old][: max(0, MAX_EVENTS - len(old))]
    rows = _rows(project_id, events, sorted(kept), now)
    bulk.execute_many(connection, _SET_EVENTS, _EVENT_COLUMNS, rows)
