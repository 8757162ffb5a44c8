"""Check the tables and the files of an event store."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import Error

from hedgerow.storage.events import replica_schema, schema
from hedgerow.storage.events.clickhouse import fetch_rows

_COLUMNS = """
    SELECT table, name FROM system.columns WHERE database = currentDatabase()
    UNION ALL
    SELECT table, 'index ' || name FROM system.data_skipping_indices
    WHERE database = currentDatabase()
"""
_PARTS = """
    SELECT table, path FROM system.parts WHERE active AND database = currentDatabase()
"""
# The engine puts such parts aside when it starts. Their rows are missing from results.
_SET_ASIDE = """
    SELECT table, path FROM system.detached_parts
    WHERE database = currentDatabase() AND startsWith(reason, 'broken')
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFindings:
    """Missing tables, columns and indexes; folders of damaged parts with the engine's reason; and
    folders of damaged parts that the engine has put aside. How many events lack typed columns, and
    why they cannot be moved."""

    missing: list[str]
    damaged: list[str]
    set_aside: list[str]
    unmoved: int = 0
    move_problem: str = ""


def check_tables(client: Client, *, reads_files: bool) -> StoreFindings:
    """With `reads_files`, read all files and compare them with their checksums."""
    return StoreFindings(
        missing=list(_find_missing(client)),
        damaged=list(_find_damaged(client)) if reads_files else [],
        set_aside=find_set_aside(client),
    )


def find_set_aside(client: Client) -> list[str]:
    """List the folders of damaged parts that the engine has put aside."""
    return [row["path"] for row in fetch_rows(client, _SET_ASIDE, {})]


def _find_missing(client: Client) -> Iterator[str]:
    found: dict[str, set[str]] = {}
    for row in fetch_rows(client, _COLUMNS, {}):
        found.setdefault(row["table"], set()).add(row["name"])
    rows_table = schema.SHARD_TABLE if schema.SHARD_TABLE in found else schema.TABLE
    expected = {schema.TABLE: schema.list_columns(), **replica_schema.list_columns()}
    expected[rows_table] = schema.list_columns() + schema.list_indexes()
    for table, names in expected.items():
        if table not in found:
            yield f"table {table}"
            continue
        for name in names:
            if name not in found[table]:
                yield f"{name} of table {table}" if " " in name else f"column {table}.{name}"


def _find_damaged(client: Client) -> Iterator[str]:
    paths: dict[tuple[str, str], str] = {}
    for row in fetch_rows(client, _PARTS, {}):
        paths[row["table"], row["path"].rstrip("/").rpartition("/")[2]] = row["path"]
    for table in sorted({table for table, _ in paths}):
        for part in _check_table(client, table):
            if not part["is_passed"]:
                where = paths.get((table, part["part_path"]), part["part_path"])
                yield f"{where} ({part['message'] or 'unreadable'})"


def _check_table(client: Client, table: str) -> list[dict[str, Any]]:
    statement = f"CHECK TABLE {table} FORMAT JSONEachRow"
    try:
        lines = client.raw_query(statement, settings={"check_query_single_value_result": 0})
    except Error as error:
        return [{"is_passed": False, "part_path": f"table {table}", "message": str(error)}]
    return [json.loads(line) for line in lines.splitlines()]
