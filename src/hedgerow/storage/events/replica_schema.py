"""ClickHouse tables of replicated persons, distinct ids, groups and cohort members, for queries
that join events with them.

Each row has a version; the highest version of a key counts, and a deleted row hides the others.
Read these tables with FINAL.
"""

import re

from hedgerow.storage.events.schema import REMOVAL_SETTINGS

PERSONS = "persons"
DISTINCT_IDS = "person_distinct_ids"
GROUPS = "groups"
MEMBERS = "cohort_people"
TABLES = (PERSONS, DISTINCT_IDS, GROUPS, MEMBERS)

_VERSIONED = """
    version UInt64 CODEC(ZSTD(1)),
    is_deleted UInt8
)"""

_BODIES = {
    PERSONS: """(
    project_id Int64,
    id UUID,
    created_at DateTime64(6, 'UTC'),
    properties String CODEC(ZSTD(1)),
    is_identified Bool,""",
    # Events carry another person id than this one only if `is_moved`.
    DISTINCT_IDS: """(
    project_id Int64,
    distinct_id String CODEC(ZSTD(1)),
    person_id UUID,
    is_moved Bool,""",
    GROUPS: """(
    project_id Int64,
    group_type_index UInt8,
    group_key String CODEC(ZSTD(1)),
    created_at DateTime64(6, 'UTC'),
    properties String CODEC(ZSTD(1)),""",
    MEMBERS: """(
    project_id Int64,
    cohort_id Int64,
    person_id UUID,""",
}

KEY_COLUMNS = {
    PERSONS: ("project_id", "id"),
    DISTINCT_IDS: ("project_id", "distinct_id"),
    GROUPS: ("project_id", "group_type_index", "group_key"),
    MEMBERS: ("project_id", "cohort_id", "person_id"),
}


def list_columns() -> dict[str, list[str]]:
    """Return the columns of each table."""
    return {
        table: re.findall(r"^    (\w+) ", _build_columns(table), re.MULTILINE) for table in TABLES
    }


def build_server_ddl() -> list[str]:
    """Build the DDL for chDB or a single ClickHouse server."""
    return [
        f"CREATE TABLE IF NOT EXISTS {table} {_build_columns(table)}\n"
        f"ENGINE = ReplacingMergeTree(version, is_deleted)\n{_build_storage_clause(table)}, "
        f"{REMOVAL_SETTINGS}"
        for table in TABLES
    ]


def build_cluster_ddl(cluster: str) -> list[str]:
    """Build the DDL for a cluster whose name is validated.

    Every server of every shard holds all rows, because the path contains no {shard}: each server
    joins its events with its own replica.
    """
    return [
        f"CREATE TABLE IF NOT EXISTS {table} ON CLUSTER '{cluster}' {_build_columns(table)}\n"
        "ENGINE = ReplicatedReplacingMergeTree("
        f"'/clickhouse/tables/everywhere/{{database}}/{table}', '{{shard}}-{{replica}}', "
        f"version, is_deleted)\n{_build_storage_clause(table)}"
        for table in TABLES
    ]


def _build_columns(table: str) -> str:
    return _BODIES[table] + _VERSIONED


def _build_storage_clause(table: str) -> str:
    return (
        f"ORDER BY ({', '.join(KEY_COLUMNS[table])})\n"
        "SETTINGS fsync_after_insert = 1, fsync_part_directory = 1"
    )
