"""The tables that a query can read, and their columns in the event store."""

from collections.abc import Mapping
from dataclasses import dataclass

from hedgerow.hogql.typed_sql import ValueType


@dataclass(frozen=True, slots=True)
class TableColumn:
    """`name` is the column's name in the event store. `*` selects the `is_listed` columns."""

    name: str
    type: ValueType
    is_listed: bool = True


@dataclass(frozen=True, slots=True)
class HogQLTable:
    """`person_column` holds the id of the row's person, from which `person.*` is resolved."""

    name: str
    columns: Mapping[str, TableColumn]
    is_final: bool = True
    person_column: str | None = None


GROUP_INDEXES = range(5)
_TEAM = TableColumn("project_id", ValueType.NUMBER)

EVENTS = HogQLTable(
    name="events",
    is_final=False,
    person_column="person_id",
    columns={
        "uuid": TableColumn("uuid", ValueType.UUID),
        "event": TableColumn("event", ValueType.STRING),
        "properties": TableColumn("properties", ValueType.PROPERTIES),
        "timestamp": TableColumn("timestamp", ValueType.DATETIME),
        "team_id": _TEAM,
        "distinct_id": TableColumn("distinct_id", ValueType.STRING),
        "elements_chain": TableColumn("elements_chain", ValueType.STRING),
        "created_at": TableColumn("created_at", ValueType.DATETIME),
        "$session_id": TableColumn("$session_id", ValueType.STRING),
        "$window_id": TableColumn("$window_id", ValueType.STRING),
        **{f"$group_{n}": TableColumn(f"$group_{n}", ValueType.STRING) for n in GROUP_INDEXES},
        # The current person: `printer/sources.py` resolves distinct ids that were merged later.
        "person_id": TableColumn("person_id", ValueType.UUID),
        "person_mode": TableColumn("person_mode", ValueType.STRING, is_listed=False),
        "historical_migration": TableColumn(
            "historical_migration", ValueType.BOOL, is_listed=False
        ),
    },
)
# The person as it was when the event was stored.
PERSON_ON_EVENTS = {
    "id": TableColumn("person_id", ValueType.UUID),
    "created_at": TableColumn("person_created_at", ValueType.DATETIME),
    "properties": TableColumn("person_properties", ValueType.PROPERTIES),
}
PERSONS = HogQLTable(
    name="persons",
    columns={
        "id": TableColumn("id", ValueType.UUID),
        "created_at": TableColumn("created_at", ValueType.DATETIME),
        "team_id": _TEAM,
        "properties": TableColumn("properties", ValueType.PROPERTIES),
        "is_identified": TableColumn("is_identified", ValueType.BOOL),
    },
)
DISTINCT_IDS = HogQLTable(
    name="person_distinct_ids",
    person_column="person_id",
    columns={
        "distinct_id": TableColumn("distinct_id", ValueType.STRING),
        "person_id": TableColumn("person_id", ValueType.UUID),
        "team_id": _TEAM,
    },
)
GROUPS = HogQLTable(
    name="groups",
    columns={
        "index": TableColumn("group_type_index", ValueType.NUMBER),
        "key": TableColumn("group_key", ValueType.STRING),
        "team_id": _TEAM,
        "created_at": TableColumn("created_at", ValueType.DATETIME),
        "properties": TableColumn("properties", ValueType.PROPERTIES),
        "group_type_index": TableColumn("group_type_index", ValueType.NUMBER, is_listed=False),
        "group_key": TableColumn("group_key", ValueType.STRING, is_listed=False),
    },
)
COHORT_PEOPLE = HogQLTable(
    name="cohort_people",
    person_column="person_id",
    columns={
        "person_id": TableColumn("person_id", ValueType.UUID),
        "cohort_id": TableColumn("cohort_id", ValueType.NUMBER),
        "team_id": _TEAM,
    },
)

TABLES: Mapping[str, HogQLTable] = {
    table.name: table for table in (EVENTS, PERSONS, DISTINCT_IDS, GROUPS, COHORT_PEOPLE)
}
