"""Removes deleted rows from the files of the event store.

DELETE only marks rows, and a deleted replica is a row that hides others: ClickHouse removes both
when it merges the parts next, which may be never.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence

from clickhouse_connect.driver.client import Client

from hedgerow.errors import Unavailable
from hedgerow.storage.events import replica_schema
from hedgerow.storage.events.clickhouse import fetch_rows
from hedgerow.storage.events.embedded.quarantine import SOURCE
from hedgerow.storage.events.schema import TABLE
from hedgerow.storage.events.table_layout import TableLayout

# Until all replicas have written their parts again.
_SYNC = "SETTINGS mutations_sync = 2"
# The embedded engine removes replaced parts every five seconds, unless a query still reads them:
# within five minutes in tables of versions that did not set this.
REMOVAL_TIMEOUT_S = 900.0
REMOVAL_POLL_S = 2.0
# An earlier purge may still run in the server although its client has given up.
EARLIER_PURGE_POLL_S = 0.5


def purge_deleted_rows(client: Client, layout: TableLayout) -> None:
    """Write the parts that contain deleted rows again, without them."""
    for partition_id in _list_masked_partitions(client, layout):
        client.command(
            f"ALTER TABLE {layout.table}{layout.on_cluster}"
            f" APPLY DELETED MASK IN PARTITION ID '{partition_id}' {_SYNC}"
        )
    for table in replica_schema.TABLES:
        if _has_deleted_rows(client, table):
            _purge_replicas(client, layout, table)


def list_replaced_parts(client: Client) -> set[tuple[str, str]]:
    """List the tables and names of parts that were replaced and are still on the disk: the engine
    keeps them for some seconds, and others keep them until their replacement is verified."""
    sql = f"""
        SELECT table, name FROM system.parts
        WHERE NOT active AND database = currentDatabase() AND table IN {{tables:Array(String)}}
        UNION ALL
        SELECT table, substring(name, {len(SOURCE) + 1}) FROM system.detached_parts
        WHERE startsWith(name, '{SOURCE}')
        AND database = currentDatabase() AND table IN {{tables:Array(String)}}
    """  # noqa: S608 - our own names
    rows = fetch_rows(client, sql, {"tables": [TABLE, *replica_schema.TABLES]})
    return {(row["table"], row["name"]) for row in rows}


async def wait_for_earlier_purge(is_purging: Callable[[], Awaitable[bool]]) -> None:
    """Wait until no purge runs: another one would write the same parts again after it. Raises
    Unavailable."""
    deadline = time.monotonic() + REMOVAL_TIMEOUT_S
    while await is_purging():
        if time.monotonic() > deadline:
            raise Unavailable("The event store has not ended an earlier purge yet.")
        await asyncio.sleep(EARLIER_PURGE_POLL_S)


def is_purging(client: Client, layout: TableLayout) -> bool:
    """Return whether deleted rows are being removed from parts. Raises Unavailable if that fails:
    the engine tries again all the time."""
    sql = f"""
        SELECT latest_fail_reason AS problem FROM {layout.list_system_rows("system.mutations")}
        WHERE NOT is_done AND NOT is_killed AND match(command, 'APPLY DELETED MASK')
        AND database = currentDatabase() AND table = {{table:String}}
    """  # noqa: S608 - our own names
    problems = [row["problem"] for row in fetch_rows(client, sql, {"table": layout.table})]
    if any(problems):
        reason = max(problems).partition("\n")[0]
        raise Unavailable(f"The event store cannot remove deleted events: {reason}")
    return bool(problems)


async def wait_until_removed(list_parts: Callable[[], Awaitable[set[tuple[str, str]]]]) -> None:
    """Wait until the parts that are replaced by now have left the disk. Raises Unavailable."""
    replaced = await list_parts()
    deadline = time.monotonic() + REMOVAL_TIMEOUT_S
    while replaced:
        if time.monotonic() > deadline:
            raise Unavailable("The event store has not removed its replaced files yet.")
        await asyncio.sleep(REMOVAL_POLL_S)
        replaced &= await list_parts()


def delete_project(client: Client, layout: TableLayout, project_id: int) -> int:
    """Write the parts that contain rows of a project again, without them, one partition after the
    other. Return how many events there were."""
    values = {"project_id": project_id}
    own = "project_id = {project_id:Int64}"
    sql = f"SELECT _partition_id AS id, count() AS count FROM {TABLE} WHERE {own} GROUP BY id"  # noqa: S608
    partitions = fetch_rows(client, sql, values)
    for row in partitions:
        client.command(
            f"ALTER TABLE {layout.table}{layout.on_cluster}"
            f" DELETE IN PARTITION ID '{row['id']}' WHERE {own} {_SYNC}",
            parameters=values,
        )
    for table in replica_schema.TABLES:
        found = f"SELECT 1 AS found FROM {table} WHERE {own} LIMIT 1"  # noqa: S608
        if fetch_rows(client, found, values):
            client.command(
                f"ALTER TABLE {table}{layout.on_cluster} DELETE WHERE {own} {_SYNC}",
                parameters=values,
            )
    return sum(int(row["count"]) for row in partitions)


def _list_masked_partitions(client: Client, layout: TableLayout) -> list[str]:
    sql = f"""
        SELECT DISTINCT partition_id FROM {layout.list_system_rows("system.parts")}
        WHERE active AND has_lightweight_delete
        AND database = currentDatabase() AND table = {{table:String}}
    """  # noqa: S608 - our own names
    return [row["partition_id"] for row in fetch_rows(client, sql, {"table": layout.table})]


def _has_deleted_rows(client: Client, table: str) -> bool:
    sql = f"SELECT 1 AS found FROM {table} WHERE is_deleted LIMIT 1"  # noqa: S608 - our own names
    return bool(fetch_rows(client, sql, {}))


def _purge_replicas(client: Client, layout: TableLayout, table: str) -> None:
    """All versions must be in one part before the rows that hide older ones may go."""
    client.command(
        f"ALTER TABLE {table}{layout.on_cluster}"
        " MODIFY SETTING allow_experimental_replacing_merge_with_cleanup = 1"
    )
    client.command(f"OPTIMIZE TABLE {table}{layout.on_cluster} FINAL CLEANUP")


def list_finished_deletions(client: Client) -> list[str]:
    sql = """
        SELECT mutation_id FROM system.mutations
        WHERE database = currentDatabase() AND table = {table:String} AND is_done
    """
    return [row["mutation_id"] for row in fetch_rows(client, sql, {"table": TABLE})]


def forget_deletions(client: Client, ids: Sequence[str]) -> None:
    """Remove the statements of finished deletions, which name distinct ids: the engine keeps the
    last 100 in files. Not before their results are verified, since they may have to be repeated;
    and not on a server, where other replicas may have yet to run them."""
    client.command(
        f"KILL MUTATION WHERE database = currentDatabase() AND table = '{TABLE}' AND is_done"
        " AND mutation_id IN {ids:Array(String)} SYNC",
        parameters={"ids": ids},
    )
