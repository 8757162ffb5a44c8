"""Replaces the table of an older version by one with smaller granules.

A look-up by distinct id reads few rows of many granules, and the engine decompresses the texts of a
granule up to the row. An existing table cannot have other granules, so another table takes over its
parts, which are links to the same files. Their granules stay until they are merged or rewritten.
"""

import re

import structlog
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import DatabaseError

from hedgerow.storage.events.clickhouse import fetch_rows
from hedgerow.storage.events.schema import GRANULE_ROWS, TABLE

# Exists only while a table is replaced.
NEXT_TABLE = "events_next"

_log = structlog.get_logger("hedgerow.events")
_GRANULES = re.compile(r"index_granularity = \d+")
_SELECT_STATEMENT = """
    SELECT create_table_query AS statement FROM system.tables
    WHERE database = currentDatabase() AND name = {table:String}
"""
_SELECT_PARTITIONS = """
    SELECT DISTINCT partition_id AS id FROM system.parts
    WHERE active AND database = currentDatabase() AND table = {table:String}
"""
_WANTED = f"index_granularity = {GRANULE_ROWS}"


def has_small_granules(engine: str) -> bool:
    """Return whether a table with this engine has granules of the wanted size."""
    return re.search(rf"\b{_WANTED}\b", engine) is not None


def replace_coarse_table(client: Client) -> None:
    """Replace the table if its granules are large. Only for the embedded engine, before the first
    use of the table: rows that are inserted meanwhile would be lost. A crash in the middle leaves
    either table complete, and the next call removes the other one."""
    try:
        _drop_next_table(client)
        if _has_running_mutations(client) or _has_detached_parts(client):
            return
        (row,) = fetch_rows(client, _SELECT_STATEMENT, {"table": TABLE})
        if has_small_granules(row["statement"]):
            return
        renamed = row["statement"].replace(f".{TABLE} ", f".{NEXT_TABLE} ", 1)
        client.command(_GRANULES.sub(_WANTED, renamed))
        for row in fetch_rows(client, _SELECT_PARTITIONS, {"table": TABLE}):
            client.command(
                f"ALTER TABLE {NEXT_TABLE} ATTACH PARTITION ID '{row['id']}' FROM {TABLE}"
            )
        if _count_rows(client, NEXT_TABLE) != _count_rows(client, TABLE):
            _log.warning("the event store keeps its large granules: the copy is not complete")
            _drop_next_table(client)
            return
        client.command(f"EXCHANGE TABLES {TABLE} AND {NEXT_TABLE}")
        _drop_next_table(client)
    except DatabaseError as error:
        _log.warning(
            "the event store keeps its large granules: look-ups by distinct id are slower",
            reason=str(error).partition("\n")[0],
        )


def _drop_next_table(client: Client) -> None:
    client.command(f"DROP TABLE IF EXISTS {NEXT_TABLE} SYNC SETTINGS max_table_size_to_drop = 0")


def _count_rows(client: Client, table: str) -> int:
    """Count the rows of all parts, deleted ones too."""
    sql = """
        SELECT sum(rows) AS count FROM system.parts
        WHERE active AND database = currentDatabase() AND table = {table:String}
    """
    (row,) = fetch_rows(client, sql, {"table": table})
    return int(row["count"])


def _has_detached_parts(client: Client) -> bool:
    """Damaged parts that were set aside would be deleted with the old table."""
    sql = """
        SELECT count() AS count FROM system.detached_parts
        WHERE database = currentDatabase() AND table = {table:String}
    """
    (row,) = fetch_rows(client, sql, {"table": TABLE})
    return bool(row["count"])


def _has_running_mutations(client: Client) -> bool:
    """The parts would leave an unfinished mutation behind: a deletion, for example."""
    sql = """
        SELECT count() AS count FROM system.mutations
        WHERE database = currentDatabase() AND table = {table:String} AND NOT is_done
    """
    (row,) = fetch_rows(client, sql, {"table": TABLE})
    return bool(row["count"])
