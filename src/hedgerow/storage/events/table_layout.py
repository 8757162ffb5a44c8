"""Which table holds the events: one of this server, or one of each shard of a cluster."""

import re
from dataclasses import dataclass

import structlog
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import DatabaseError

from hedgerow.errors import Unavailable
from hedgerow.storage.events import replica_schema, typed_columns
from hedgerow.storage.events.clickhouse import fetch_rows
from hedgerow.storage.events.granules import has_small_granules, replace_coarse_table
from hedgerow.storage.events.schema import (
    DEDUPLICATION_SETTING,
    SHARD_TABLE,
    TABLE,
    build_server_ddl,
    build_typed_server_ddl,
)

# The settings of tables of the embedded engine.
EMBEDDED_SETTINGS = (
    # It removes merged parts in one thread. Above 100 parts it would start 128 threads, which it
    # keeps for good, with their memory.
    "concurrent_part_removal_threshold = 1000000",
    # Sources of merges stay until what was made from them has been looked at: embedded/verifier.py.
    "old_parts_lifetime = 10",
    "min_rows_to_fsync_after_merge = 1",
    # A block of a part that was quarantined is inserted again.
    "non_replicated_deduplication_window = 0",
)

_log = structlog.get_logger("hedgerow.events")

_SELECT_TABLE = """
    SELECT engine_full, toString(uuid) AS uuid FROM system.tables
    WHERE database = currentDatabase() AND name = {table:String}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLayout:
    """The table that holds the rows, and the ON CLUSTER clause if there is a cluster."""

    table: str
    cluster: str = ""
    # The id of a table that only one server has.
    local_id: str = ""
    has_typed_columns: bool = False
    has_small_granules: bool = False

    @property
    def on_cluster(self) -> str:
        return f" ON CLUSTER '{self.cluster}'" if self.cluster else ""

    def list_system_rows(self, table: str) -> str:
        """Build a FROM clause for a system table: of every server of a cluster."""
        return f"clusterAllReplicas('{self.cluster}', {table})" if self.cluster else table


def find_layout(client: Client) -> TableLayout | None:
    """Return None if there is no table yet."""
    for row in fetch_rows(client, _SELECT_TABLE, {"table": TABLE}):
        has_typed_columns = _has_typed_columns(client)
        if spread := re.match(r"Distributed\('([^']+)'", row["engine_full"]):
            return TableLayout(
                table=SHARD_TABLE, cluster=spread[1], has_typed_columns=has_typed_columns
            )
        is_local = row["engine_full"].startswith("MergeTree")
        return TableLayout(
            table=TABLE,
            local_id=row["uuid"] if is_local else "",
            has_typed_columns=has_typed_columns,
            has_small_granules=has_small_granules(row["engine_full"]),
        )
    return None


def prepare_tables(client: Client, *, is_only_user: bool = False) -> TableLayout:
    """Create missing tables. Only `hedgerow migrate --clickhouse-cluster` creates a cluster's.
    The only user of an embedded engine replaces an older table."""
    found = find_layout(client)
    if found is not None and found.cluster:
        return found
    own_settings = "".join(f", {each}" for each in EMBEDDED_SETTINGS if is_only_user)
    if found is None:
        _create_table(client, own_settings or f", {DEDUPLICATION_SETTING}")
    for statement in replica_schema.build_server_ddl():
        client.command(statement + own_settings)
    is_typed = found is not None and found.has_typed_columns
    if not is_typed and not _has_typed_columns(client):
        _add_typed_columns(client)
    if is_only_user:
        if found is not None and not found.has_small_granules:
            replace_coarse_table(client)
        _change_embedded_settings(client)
    layout = find_layout(client)
    assert layout is not None
    return layout


def _create_table(client: Client, own_settings: str) -> None:
    """Even a statement for a table that exists takes a tenth of an engine's start."""
    try:
        client.command(build_typed_server_ddl() + own_settings)
    except DatabaseError:  # see _add_typed_columns
        for statement in build_server_ddl():
            client.command(statement + own_settings)


def _change_embedded_settings(client: Client) -> None:
    """Change the settings of tables of older versions. Each change takes as long as creating the
    table."""
    sql = """
        SELECT name FROM system.tables WHERE database = currentDatabase()
        AND name IN {tables:Array(String)}
        AND arrayExists(each -> position(engine_full, each) = 0, {settings:Array(String)})
    """
    params = {"tables": [TABLE, *replica_schema.TABLES], "settings": [*EMBEDDED_SETTINGS]}
    for row in fetch_rows(client, sql, params):
        client.command(f"ALTER TABLE {row['name']} MODIFY SETTING {', '.join(EMBEDDED_SETTINGS)}")


def _add_typed_columns(client: Client) -> None:
    """Without them, properties are read from their text."""
    try:
        client.command(typed_columns.build_setting_ddl(TABLE))
        client.command(typed_columns.build_add_ddl(TABLE))
    except DatabaseError as error:
        _log.warning(
            "the event store cannot have typed columns: queries on properties are slow",
            reason=str(error).partition("\n")[0],
            remedy="Use ClickHouse 25.8 or newer.",
        )


def _has_typed_columns(client: Client) -> bool:
    sql = """
        SELECT count() AS found FROM system.columns WHERE database = currentDatabase()
        AND table = {table:String} AND name IN {names:Array(String)}
    """
    names = typed_columns.list_column_names()
    (row,) = fetch_rows(client, sql, {"table": TABLE, "names": names})
    return int(row["found"]) == len(names)


def check_same_server(client: Client, layout: TableLayout) -> None:
    """Refuse a load balancer in front of servers that do not share their tables: it would spread
    the events over them, and every query would find a part. Raises Unavailable."""
    if not layout.local_id:
        return
    if [row["uuid"] for row in fetch_rows(client, _SELECT_TABLE, {"table": TABLE})] != [
        layout.local_id
    ]:
        raise Unavailable(
            "HEDGEROW_CLICKHOUSE_URL leads to several servers with a table `events` of their own, "
            "or the table was replaced. Name one server, or create the tables of a cluster "
            "(`hedgerow migrate --help`), and start Hedgerow again."
        )
