"""The copies of persons, distinct ids, groups and members of cohorts in ClickHouse, for queries
that ask for events and people together.

Every row has the version of its key that it shows; the newest counts, and one that is deleted hides
the others. Read them with FINAL.
"""

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
    # Only of those that moved do events tell another person than this.
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

KEYS = {
    PERSONS: ("project_id", "id"),
    DISTINCT_IDS: ("project_id", "distinct_id"),
    GROUPS: ("project_id", "group_type_index", "group_key"),
    MEMBERS: ("project_id", "cohort_id", "person_id"),
}


def single_ddl() -> list[str]:
    """For chDB and for one ClickHouse server."""
    return [
        f"CREATE TABLE IF NOT EXISTS {table} {_body(table)}\n"
        f"ENGINE = ReplacingMergeTree(version, is_deleted)\n{_layout(table)}"
        for table in TABLES
    ]


def cluster_ddl(cluster: str) -> list[str]:
    """For a cluster whose name was checked. Every server of every shard has all of it, since the
    path has no {shard} in it: each joins its own events with its own copy."""
    return [
        f"CREATE TABLE IF NOT EXISTS {table} ON CLUSTER '{cluster}' {_body(table)}\n"
        "ENGINE = ReplicatedReplacingMergeTree("
        f"'/clickhouse/tables/everywhere/{{database}}/{table}', '{{shard}}-{{replica}}', "
        f"version, is_deleted)\n{_layout(table)}"
        for table in TABLES
    ]


def _body(table: str) -> str:
    return _BODIES[table] + _VERSIONED


def _layout(table: str) -> str:
    return (
        f"ORDER BY ({', '.join(KEYS[table])})\n"
        "SETTINGS fsync_after_insert = 1, fsync_part_directory = 1"
    )
