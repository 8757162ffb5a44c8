"""Which table holds the events: one of this server, or one of each shard of a cluster."""

import re
from dataclasses import dataclass

from clickhouse_connect.driver.client import Client

from hedgerow.errors import Unavailable
from hedgerow.storage.events import replica_schema
from hedgerow.storage.events.clickhouse import fetch_rows
from hedgerow.storage.events.schema import SHARD_TABLE, TABLE, build_server_ddl

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

    @property
    def on_cluster(self) -> str:
        return f" ON CLUSTER '{self.cluster}'" if self.cluster else ""

    def list_system_rows(self, table: str) -> str:
        """Build a FROM clause for a system table: of every server of a cluster."""
        return f"clusterAllReplicas('{self.cluster}', {table})" if self.cluster else table


def prepare_tables(client: Client) -> TableLayout:
    """Create missing tables. Only `hedgerow migrate --clickhouse-cluster` creates a cluster's."""
    for row in fetch_rows(client, _SELECT_TABLE, {"table": TABLE}):
        if spread := re.match(r"Distributed\('([^']+)'", row["engine_full"]):
            return TableLayout(table=SHARD_TABLE, cluster=spread[1])
    for statement in [*build_server_ddl(), *replica_schema.build_server_ddl()]:
        client.command(statement)
    (row,) = fetch_rows(client, _SELECT_TABLE, {"table": TABLE})
    is_local = row["engine_full"].startswith("MergeTree")
    return TableLayout(table=TABLE, local_id=row["uuid"] if is_local else "")


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
