"""The tables of events in ClickHouse, on one server and on a cluster.

Every statement may be run again: it makes what is missing and leaves the rest. A later version adds
its columns at the end of these lists, with ALTER TABLE ... ADD COLUMN IF NOT EXISTS.
"""

import re

from hedgerow.errors import Invalid

TABLE = "events"
# On a cluster, `events` spreads over the shards and this holds each shard's own rows.
SHARD_TABLE = "events_on_shard"

# What an append brings, in the order of the fields of events.model.Event.
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

_FROM_PROPERTIES = ("$session_id", "$window_id", *(f"$group_{number}" for number in range(5)))
# All of them out of one reading of the JSON: written alike, the engine does it once for each row.
_PARSED = (
    f"JSONExtract(properties, 'Tuple({', '.join(f'`{n}` String' for n in _FROM_PROPERTIES)})')"
)
_MATERIALISED = ",\n    ".join(
    f"`{name}` String MATERIALIZED tupleElement({_PARSED}, '{name}') CODEC(ZSTD(1))"
    for name in _FROM_PROPERTIES
)

# Listing reads by time, newest first, within a project: hence the sorting key. The filter on uuid
# is fine enough that looking for hundreds of new ones seldom reads a column at all.
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

# Months that no honest clock shows share one partition: their number is bounded, whatever clients
# send. The deduplication window lets a block that the driver sends a second time be told apart.
_LAYOUT = """PARTITION BY if(toYear(timestamp) BETWEEN 2000 AND 2099, toYYYYMM(timestamp), 0)
ORDER BY (project_id, timestamp, uuid)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1,
    non_replicated_deduplication_window = 100"""


def single_ddl() -> list[str]:
    """For chDB and for one ClickHouse server."""
    return [f"CREATE TABLE IF NOT EXISTS {TABLE} {_BODY}\nENGINE = MergeTree\n{_LAYOUT}"]


def cluster_ddl(cluster: str) -> list[str]:
    """For a cluster: each shard keeps its rows on all of its replicas, any server answers for all
    of them. The servers' macros {shard} and {replica} tell them apart."""
    if not re.fullmatch(r"[A-Za-z0-9_.-]+", cluster):
        raise Invalid("A cluster's name has letters, digits, '_', '.' and '-' only.")
    on_cluster = f" ON CLUSTER '{cluster}'"
    replicated = (
        "ReplicatedMergeTree("
        f"'/clickhouse/tables/{{shard}}/{{database}}/{SHARD_TABLE}', '{{replica}}')"
    )
    # Events with the same uuid must meet on one shard, else a duplicate would not be seen there.
    spread = f"Distributed('{cluster}', currentDatabase(), '{SHARD_TABLE}', sipHash64(uuid))"
    return [
        f"CREATE TABLE IF NOT EXISTS {SHARD_TABLE}{on_cluster} {_BODY}\n"
        f"ENGINE = {replicated}\n{_LAYOUT}",
        f"CREATE TABLE IF NOT EXISTS {TABLE}{on_cluster} AS {SHARD_TABLE}\nENGINE = {spread}",
    ]
