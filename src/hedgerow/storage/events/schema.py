"""The ClickHouse tables of events, for one server and for a cluster.

Every statement is idempotent. Later versions append columns to these lists, with
ALTER TABLE ... ADD COLUMN IF NOT EXISTS.
"""

import re
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.storage.events import typed_columns

TABLE = "events"
# On a cluster, `events` is distributed over the shards and this table holds the rows of a shard.
SHARD_TABLE = "events_on_shard"

# The inserted columns, in the order of the fields of events.model.Event.
COLUMNS = (
    "project_id",
    "uuid",
    "event",
    "distinct_id",
    "properties",
    "elements_chain",
    "timestamp",
    "created_at",
    "person_id",
    "person_created_at",
    "person_properties",
    "person_mode",
    "historical_migration",
)

# Pinned, because a server may have other defaults. When an insert returns, its rows are on the
# disks of the majority of the replicas of each affected shard.
INSERT_SETTINGS: dict[str, Any] = {
    "async_insert": 0,
    "distributed_foreground_insert": 1,
    "insert_deduplicate": 1,
    "insert_quorum": "auto",
    "insert_quorum_parallel": 1,
    "insert_quorum_timeout": 10_000,
    "date_time_input_format": "best_effort",
    # A block is too small to benefit.
    "input_format_parallel_parsing": 0,
}

_FROM_PROPERTIES = ("$session_id", "$window_id", *(f"$group_{number}" for number in range(5)))
# One identical expression for all, so that the engine parses the JSON once per row.
_PARSED = (
    f"JSONExtract(properties, 'Tuple({', '.join(f'`{n}` String' for n in _FROM_PROPERTIES)})')"
)
_MATERIALISED = ",\n    ".join(
    f"`{name}` String MATERIALIZED tupleElement({_PARSED}, '{name}') CODEC(ZSTD(1))"
    for name in _FROM_PROPERTIES
)

# Lists read a project by time, newest first: hence the sorting key. The UUID filter is precise
# enough that looking up hundreds of new UUIDs rarely reads a column at all.
_BODY = f"""(
    project_id Int64,
    uuid UUID,
    event LowCardinality(String),
    distinct_id String CODEC(ZSTD(1)),
    properties String CODEC(ZSTD(1)),
    elements_chain String CODEC(ZSTD(1)),
    timestamp DateTime64(6, 'UTC'),
    created_at DateTime64(6, 'UTC'),
    person_id UUID,
    person_created_at DateTime64(6, 'UTC'),
    person_properties String CODEC(ZSTD(1)),
    person_mode Enum8('full' = 0, 'propertyless' = 1, 'force_upgrade' = 2),
    historical_migration Bool,
    {_MATERIALISED},
    INDEX uuid_filter uuid TYPE bloom_filter(0.0001) GRANULARITY 1,
    INDEX distinct_id_filter distinct_id TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX person_id_filter person_id TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX created_at_range created_at TYPE minmax GRANULARITY 1
)"""

# A look-up by distinct id decompresses half a granule of texts for each event that it finds: with
# the engine's default of 8192 rows, a page took more than twice as long.
GRANULE_ROWS = 1024

# What an insert has written is on the disk when it is answered.
DURABLE_SETTINGS = ("fsync_after_insert = 1", "fsync_part_directory = 1")

# Implausible months share one partition, so that clients cannot create arbitrarily many.
_LAYOUT = f"""PARTITION BY if(toYear(timestamp) BETWEEN 2000 AND 2099, toYYYYMM(timestamp), 0)
ORDER BY (project_id, timestamp, uuid)
SETTINGS index_granularity = {GRANULE_ROWS}, {", ".join(DURABLE_SETTINGS)}"""

# For the table of a server: detects a block that is sent twice, by the driver or another worker.
DEDUPLICATION_SETTING = "non_replicated_deduplication_window = 1000"

# For tables without replicas: how often the engine removes the files that a merge or a deletion has
# replaced. A deletion waits for that. Without the maximum, an idle engine waits for up to five
# minutes.
REMOVAL_SETTINGS = (
    "cleanup_delay_period = 5, max_cleanup_delay_period = 5, cleanup_delay_period_random_add = 0"
)


def list_columns() -> list[str]:
    """List the columns that every table has. Typed columns are added to it."""
    return [*COLUMNS, *_FROM_PROPERTIES]


def list_indexes() -> list[str]:
    return [f"index {name}" for name in re.findall(r"INDEX (\w+)", _BODY)]


def build_server_ddl() -> list[str]:
    """Build the DDL for chDB or a single ClickHouse server."""
    layout = f"{_LAYOUT}, {REMOVAL_SETTINGS}"
    return [f"CREATE TABLE IF NOT EXISTS {TABLE} {_BODY}\nENGINE = MergeTree\n{layout}"]


def build_typed_server_ddl() -> str:
    """Build the DDL for a table that has typed columns from its start: adding them takes twice as
    long. Servers before ClickHouse 25.8 refuse it."""
    (plain,) = build_server_ddl()
    added = ",\n    ".join(typed_columns.build_column_ddl())
    typed = plain.replace(f"{_MATERIALISED},", f"{_MATERIALISED},\n    {added},", 1)
    return f"{typed}, {typed_columns.WRITE_SETTINGS}"


def build_cluster_upgrade_ddl(cluster: str) -> list[str]:
    """Build the DDL that adds typed columns to the tables of a cluster."""
    on_cluster = f" ON CLUSTER '{cluster}'"
    return [
        typed_columns.build_setting_ddl(SHARD_TABLE, on_cluster),
        *(typed_columns.build_add_ddl(table, on_cluster) for table in (SHARD_TABLE, TABLE)),
    ]


def build_cluster_ddl(cluster: str) -> list[str]:
    """Build the DDL for a cluster.

    Each shard stores its rows on all of its replicas, and any server answers for all shards. The
    servers must define the macros {shard} and {replica}.
    """
    if not re.fullmatch(r"[A-Za-z0-9_.-]+", cluster):
        raise Invalid("Invalid cluster name. Allowed are letters, digits, '_', '.' and '-'.")
    on_cluster = f" ON CLUSTER '{cluster}'"
    replicated = (
        "ReplicatedMergeTree("
        f"'/clickhouse/tables/{{shard}}/{{database}}/{SHARD_TABLE}', '{{replica}}')"
    )
    # Events with the same UUID must be on one shard, or duplicates would not be detected.
    spread = f"Distributed('{cluster}', currentDatabase(), '{SHARD_TABLE}', sipHash64(uuid))"
    return [
        f"CREATE TABLE IF NOT EXISTS {SHARD_TABLE}{on_cluster} {_BODY}\n"
        f"ENGINE = {replicated}\n{_LAYOUT}",
        f"CREATE TABLE IF NOT EXISTS {TABLE}{on_cluster} AS {SHARD_TABLE}\nENGINE = {spread}",
    ]
