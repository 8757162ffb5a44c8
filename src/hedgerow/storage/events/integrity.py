"""Check the tables and the files of an event store, and read around damaged ones."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import Error

from hedgerow.storage.events import replica_schema, schema
from hedgerow.storage.events.clickhouse import (
    ClickHousePool,
    fetch_rows,
    is_damage,
    translate_error,
)
from hedgerow.storage.events.embedded.quarantine import QUARANTINED, describe_quarantined

_COLUMNS = """
    SELECT table, name FROM system.columns WHERE database = currentDatabase()
    UNION ALL
    SELECT table, 'index ' || name FROM system.data_skipping_indices
    WHERE database = currentDatabase()
"""
_PARTS = """
    SELECT table, path FROM system.parts WHERE active AND database = currentDatabase()
"""
_PARTS_OF_TABLE = """
    SELECT name FROM system.parts
    WHERE active AND database = currentDatabase() AND table = {table:String}
"""
_TABLES = "SELECT name FROM system.tables WHERE database = currentDatabase()"
# The engine detaches such parts when it starts.
_SET_ASIDE = """
    SELECT table, name, path, partition_id, min_block_number, max_block_number
    FROM system.detached_parts
    WHERE database = currentDatabase() AND startsWith(reason, 'broken')
"""
_BLOCKS = """
    SELECT table, partition_id, min_block_number, max_block_number FROM system.parts
    WHERE active AND database = currentDatabase()
"""
_QUARANTINED = f"""
    SELECT table, path FROM system.detached_parts
    WHERE database = currentDatabase() AND startsWith(name, '{QUARANTINED}')
"""  # noqa: S608 - our own names

ALL_PARTS = "1"

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True, kw_only=True)
class SetAsidePart:
    table: str
    name: str
    folder: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFindings:
    """Missing tables, columns and indexes; folders of damaged parts with the engine's reason; and
    folders of damaged parts that the engine has put aside. Those of replicas are listed apart: they
    can be built again. Parts that were not complete when they were written. How many events lack
    typed columns, and why they cannot be moved."""

    missing: list[str]
    damaged: list[str]
    set_aside: list[str]
    damaged_replicas: list[str] = field(default_factory=list)
    set_aside_replicas: list[str] = field(default_factory=list)
    quarantined: list[dict[str, Any]] = field(default_factory=list)
    unmoved: int = 0
    move_problem: str = ""


class ReadableParts:
    """The parts of an embedded table of events that are not known to be damaged. Damaged parts keep
    their names until the engine starts again, because it cannot merge them.

    Each event is looked up before it is stored. A damaged file must not stop that: readers cannot
    read the events in it anyway, so the look-up leaves out its part.
    """

    def __init__(self, engine: ClickHousePool) -> None:
        self._damaged: set[str] = set()
        self._engine = engine
        self._restarts = 0

    def read(self, client: Client, read: Callable[[str], Item]) -> Item:
        """Call `read` with an SQL condition for the parts that it may read. If it fails, look for
        damaged parts, and call it again without them."""
        while True:
            if self._restarts != self._engine.restarts:
                self._restarts = self._engine.restarts
                self._damaged.clear()
            try:
                return read(self._build_condition())
            except (Error, OSError) as error:
                if not _may_be_damage(error):
                    raise
                damaged = dict(self._find_damaged(client, read))
                if not damaged:
                    raise
            for reason in damaged.values():
                self._engine.report_damage(reason)
            self._damaged.update(damaged)

    def _build_condition(self) -> str:
        names = ", ".join(f"'{name}'" for name in sorted(self._damaged))
        return f"_part NOT IN ({names})" if names else ALL_PARTS

    def _find_damaged(
        self, client: Client, read: Callable[[str], Item]
    ) -> Iterator[tuple[str, Exception]]:
        names = {
            row["name"] for row in fetch_rows(client, _PARTS_OF_TABLE, {"table": schema.TABLE})
        }
        for name in sorted(names - self._damaged):
            try:
                read(f"_part = '{name}'")
            except (Error, OSError) as error:
                if not _may_be_damage(error):
                    raise
                yield name, error


def _may_be_damage(error: Error | OSError) -> bool:
    """Return whether a statement of ours fails for a reason in the files. Nothing else is known to
    make it fail and to be no lack of a resource."""
    translated = translate_error(error)
    return translated is error or is_damage(translated)


def check_tables(client: Client, *, reads_files: bool) -> StoreFindings:
    """With `reads_files`, read all files and compare them with their checksums."""
    damaged = list(_find_damaged(client)) if reads_files else []
    set_aside = find_set_aside(client)
    replicas = replica_schema.TABLES
    return StoreFindings(
        missing=list(_find_missing(client)),
        damaged=[folder for table, folder in damaged if table not in replicas],
        set_aside=[part.folder for part in set_aside if part.table not in replicas],
        damaged_replicas=[folder for table, folder in damaged if table in replicas],
        set_aside_replicas=[part.folder for part in set_aside if part.table in replicas],
        quarantined=list(_find_quarantined(client)) if reads_files else [],
    )


def _find_quarantined(client: Client) -> Iterator[dict[str, Any]]:
    for row in fetch_rows(client, _QUARANTINED, {}):
        if (found := describe_quarantined(Path(row["path"]))) is not None:
            yield {
                "table": row["table"],
                "folder": str(found.folder),
                "is_inserted": found.part.is_inserted,
                "reason": found.reason,
                "rows": found.rows,
                "quarantined_at": found.quarantined_at,
            }


def find_set_aside(client: Client) -> list[SetAsidePart]:
    """List the damaged parts that the engine has put aside, and whose rows are missing: the parts
    that a merge has made them from may still have been there."""
    rows = fetch_rows(client, _SET_ASIDE, {})
    blocks = fetch_rows(client, _BLOCKS, {}) if rows else []
    return [
        SetAsidePart(table=row["table"], name=row["name"], folder=row["path"])
        for row in rows
        if not any(_have_common_blocks(row, each) for each in blocks)
    ]


def _have_common_blocks(row: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return (
        (row["table"], row["partition_id"]) == (other["table"], other["partition_id"])
        and row["min_block_number"] <= other["max_block_number"]
        and row["max_block_number"] >= other["min_block_number"]
    )


def empty_incomplete_replicas(client: Client) -> bool:
    """Empty all replicas if files of one are lost, so that all are built again. Return whether they
    were. Rows that remain would make the others look complete."""
    tables = {row["name"] for row in fetch_rows(client, _TABLES, {})}
    existing = tables.intersection(replica_schema.TABLES)
    set_aside = [part for part in find_set_aside(client) if part.table in existing]
    if not existing or (len(existing) == len(replica_schema.TABLES) and not set_aside):
        return False
    for table in sorted(existing):
        client.command(f"TRUNCATE TABLE {table}", settings={"max_table_size_to_drop": 0})
    # Last, so that a crash repeats it.
    for part in set_aside:
        client.command(
            f"ALTER TABLE {part.table} DROP DETACHED PART '{part.name}'",
            settings={"allow_drop_detached": 1},
        )
    return True


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


def _find_damaged(client: Client) -> Iterator[tuple[str, str]]:
    """Yield the table and the folder of each damaged part."""
    paths: dict[tuple[str, str], str] = {}
    for row in fetch_rows(client, _PARTS, {}):
        paths[row["table"], row["path"].rstrip("/").rpartition("/")[2]] = row["path"]
    for table in sorted({table for table, _ in paths}):
        for part in _check_table(client, table):
            if not part["is_passed"]:
                where = paths.get((table, part["part_path"]), part["part_path"])
                yield table, f"{where} ({part['message'] or 'unreadable'})"


def _check_table(client: Client, table: str) -> list[dict[str, Any]]:
    statement = f"CHECK TABLE {table} FORMAT JSONEachRow"
    try:
        lines = client.raw_query(statement, settings={"check_query_single_value_result": 0})
    except Error as error:
        return [{"is_passed": False, "part_path": f"table {table}", "message": str(error)}]
    return [json.loads(line) for line in lines.splitlines()]
