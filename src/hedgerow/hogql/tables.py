"""The tables that a query can name, and their columns in the engine."""

from collections.abc import Mapping
from dataclasses import dataclass

from hedgerow.hogql.kinds import Kind


@dataclass(frozen=True, slots=True)
class Column:
    """`name` is the engine's. `is_listed` columns are those of `*`."""

    name: str
    kind: Kind
    owner: str = ""
    is_listed: bool = True


@dataclass(frozen=True, slots=True)
class Table:
    """`person_column` holds the id of the row's person, `person` leads from there."""

    name: str
    columns: Mapping[str, Column]
    is_final: bool = True
    person_column: str | None = None


GROUPS = range(5)
_TEAM = Column("project_id", Kind.NUMBER)

EVENTS = Table(
    name="events",
    is_final=False,
    person_column="person_id",
    columns={
        "uuid": Column("uuid", Kind.UUID),
        "event": Column("event", Kind.STRING),
        "properties": Column("properties", Kind.PROPERTIES, owner="event"),
        "timestamp": Column("timestamp", Kind.DATETIME),
        "team_id": _TEAM,
        "distinct_id": Column("distinct_id", Kind.STRING),
        "elements_chain": Column("elements_chain", Kind.STRING),
        "created_at": Column("created_at", Kind.DATETIME),
        "$session_id": Column("$session_id", Kind.STRING),
        "$window_id": Column("$window_id", Kind.STRING),
        **{f"$group_{n}": Column(f"$group_{n}", Kind.STRING) for n in GROUPS},
        # Today's person; `sources` follows the ids that have moved since.
        "person_id": Column("person_id", Kind.UUID),
        "person_mode": Column("person_mode", Kind.STRING, is_listed=False),
        "historical_migration": Column("historical_migration", Kind.BOOL, is_listed=False),
    },
)
# The person as stored with the event.
ON_EVENTS = {
    "id": Column("person_id", Kind.UUID),
    "created_at": Column("person_created_at", Kind.DATETIME),
    "properties": Column("person_properties", Kind.PROPERTIES, owner="person"),
}
PERSONS = Table(
    name="persons",
    columns={
        "id": Column("id", Kind.UUID),
        "created_at": Column("created_at", Kind.DATETIME),
        "team_id": _TEAM,
        "properties": Column("properties", Kind.PROPERTIES, owner="person"),
        "is_identified": Column("is_identified", Kind.BOOL),
    },
)
DISTINCT_IDS = Table(
    name="person_distinct_ids",
    person_column="person_id",
    columns={
        "distinct_id": Column("distinct_id", Kind.STRING),
        "person_id": Column("person_id", Kind.UUID),
        "team_id": _TEAM,
    },
)
GROUP_ROWS = Table(
    name="groups",
    columns={
        "index": Column("group_type_index", Kind.NUMBER),
        "key": Column("group_key", Kind.STRING),
        "team_id": _TEAM,
        "created_at": Column("created_at", Kind.DATETIME),
        "properties": Column("properties", Kind.PROPERTIES, owner="group"),
        "group_type_index": Column("group_type_index", Kind.NUMBER, is_listed=False),
        "group_key": Column("group_key", Kind.STRING, is_listed=False),
    },
)
COHORT_PEOPLE = Table(
    name="cohort_people",
    person_column="person_id",
    columns={
        "person_id": Column("person_id", Kind.UUID),
        "cohort_id": Column("cohort_id", Kind.NUMBER),
        "team_id": _TEAM,
    },
)

TABLES: Mapping[str, Table] = {
    table.name: table for table in (EVENTS, PERSONS, DISTINCT_IDS, GROUP_ROWS, COHORT_PEOPLE)
}
