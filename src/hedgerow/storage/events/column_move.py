"""Fills the typed columns of events that an older version has stored, and makes the granules of
their parts smaller if those of the table are.

One month after the other, the newest first, while events are appended and read. The engine does
the work and continues it after a restart. What a month contains tells whether it is done, so there
is no other record of the progress.
"""

from dataclasses import dataclass, replace
from typing import Any

from clickhouse_connect.driver.client import Client

from hedgerow.storage.events.clickhouse import fetch_rows
from hedgerow.storage.events.schema import GRANULE_ROWS
from hedgerow.storage.events.table_layout import TableLayout
from hedgerow.storage.events.typed_columns import list_column_names

# What stays free on the disk beside the new columns of a month.
RESERVED_DISK_BYTES = 512 << 20
# With less than this, a month that is being filled is given up until there is space. The engine
# would wait without a word.
MIN_FREE_BYTES = 64 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveState:
    """How many events lack typed columns, how many lack them or have large granules, which month
    is next, whether it has large granules, and which statement moves one now. `problem` is why the
    move cannot continue."""

    rows_left: int
    all_rows_left: int = 0
    partition_id: str = ""
    is_coarse: bool = False
    mutation_id: str = ""
    problem: str = ""


def count_unfilled_rows(client: Client, layout: TableLayout) -> int:
    return sum(row["unfilled"] for row in _list_unmoved(client, layout))


def inspect_move(client: Client, layout: TableLayout) -> MoveState:
    """Look how far the move is. Changes nothing."""
    unmoved = _list_unmoved(client, layout)
    rows_left = sum(row["unfilled"] for row in unmoved)
    state = MoveState(rows_left=rows_left, all_rows_left=sum(row["rows"] for row in unmoved))
    if (running := _find_mutation(client, layout)) is not None:
        problem = running["latest_fail_reason"] or _check_space(client, layout, MIN_FREE_BYTES)
        return replace(state, mutation_id=running["mutation_id"], problem=problem)
    if not unmoved:
        return state
    month = unmoved[0]
    problem = _check_space(client, layout, month["bytes"] + RESERVED_DISK_BYTES)
    return replace(
        state,
        partition_id=month["partition_id"],
        is_coarse=bool(month["is_coarse"]),
        problem=problem,
    )


def continue_move(client: Client, layout: TableLayout) -> MoveState:
    """Start to fill the next month, unless one is being filled. Returns at once."""
    state = inspect_move(client, layout)
    if state.mutation_id and state.problem:
        _cancel(client, layout, state.mutation_id)
    elif state.partition_id and not state.problem:
        _fill_partition(client, layout, state)
    return state


def _fill_partition(client: Client, layout: TableLayout, state: MoveState) -> None:
    where = f"IN PARTITION ID '{state.partition_id}'"
    steps = ", ".join(f"MATERIALIZE COLUMN {name} {where}" for name in list_column_names())
    if state.is_coarse:
        # Fills missing columns, too.
        steps = f"REWRITE PARTS {where}"
    client.command(
        f"ALTER TABLE {layout.table}{layout.on_cluster} {steps} SETTINGS mutations_sync = 0"
    )


def _list_unmoved(client: Client, layout: TableLayout) -> list[dict[str, Any]]:
    """List the months with parts that lack a typed column or have larger granules than the table.
    Those that lack a column come first, then the newest."""
    sql = f"""
        SELECT partition_id, sum(part_rows) AS rows, sum(part_bytes) AS bytes,
               sumIf(part_rows, is_unfilled) AS unfilled, max(has_large_granules) AS is_coarse
        FROM (
            SELECT partition_id, name, any(rows) AS part_rows, any(bytes_on_disk) AS part_bytes,
                   countIf(column IN {{names:Array(String)}}) < {{count:UInt8}} AS is_unfilled,
                   {{granule:UInt64}} > 0 AND part_rows > any(marks) * {{granule:UInt64}}
                   AS has_large_granules
            FROM {layout.list_system_rows("system.parts_columns")}
            WHERE active AND database = currentDatabase() AND table = {{table:String}}
            GROUP BY hostName(), partition_id, name
        )
        WHERE is_unfilled OR has_large_granules GROUP BY partition_id
        ORDER BY unfilled > 0 DESC, toUInt32OrZero(partition_id) DESC
    """  # noqa: S608 - our own names
    names = list_column_names()
    # A part has a mark for each granule, and one at its end. Granules can be a little larger.
    granule = 2 * GRANULE_ROWS if layout.has_small_granules else 0
    params = {"table": layout.table, "names": names, "count": len(names), "granule": granule}
    return fetch_rows(client, sql, params)


def _find_mutation(client: Client, layout: TableLayout) -> dict[str, Any] | None:
    sql = f"""
        SELECT mutation_id, latest_fail_reason FROM {layout.list_system_rows("system.mutations")}
        WHERE NOT is_done AND NOT is_killed AND match(command, 'MATERIALIZE COLUMN|REWRITE PARTS')
        AND database = currentDatabase() AND table = {{table:String}}
        ORDER BY latest_fail_reason = '' LIMIT 1
    """  # noqa: S608 - our own names
    return next(iter(fetch_rows(client, sql, {"table": layout.table})), None)


def _cancel(client: Client, layout: TableLayout, mutation_id: str) -> None:
    """Without this, the engine would try again all the time."""
    client.command(
        f"KILL MUTATION{layout.on_cluster} WHERE database = currentDatabase()"
        " AND table = {table:String} AND mutation_id = {id:String}",
        parameters={"table": layout.table, "id": mutation_id},
    )


def _check_space(client: Client, layout: TableLayout, needed: int) -> str:
    """Return what is wrong if a disk has less space than this, otherwise empty text."""
    sql = f"SELECT min(unreserved_space) AS free FROM {layout.list_system_rows('system.disks')}"  # noqa: S608
    (row,) = fetch_rows(client, sql, {})
    if (free := int(row["free"])) >= needed:
        return ""
    return f"The disk has {free >> 20:,} MiB free, and the move needs {needed >> 20:,} MiB."
