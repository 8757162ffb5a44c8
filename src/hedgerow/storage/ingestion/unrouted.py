"""Stored events whose deliveries are not created yet, because the filters of their project's
destinations take long.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Integer, bindparam, func, insert, literal_column, select, text

from hedgerow.ingestion.model import ProcessedRow
from hedgerow.ingestion.store import FAN_OUT_BYTES
from hedgerow.projects.model import ProjectId
from hedgerow.storage.engine import bulk
from hedgerow.storage.engine.database import Database, PreparedQuery
from hedgerow.storage.ingestion.inbox_packing import pack_single_row
from hedgerow.storage.tables.ingestion import unrouted_events as table

MAX_ROWS = 16

_select_projects = PreparedQuery(text("SELECT DISTINCT project_id FROM unrouted_events"))
_select_counts = PreparedQuery(
    select(table.c.project_id, func.sum(table.c.number)).group_by(table.c.project_id)
)
_select_first = PreparedQuery(
    select(table.c.id, table.c.number, table.c.events, table.c.project_id)
    .where(table.c.project_id == bindparam("project_id"))
    .order_by(table.c.id)
    .limit(bindparam("limit"))
    .offset(literal_column("0", Integer))
)
_DELETE = "DELETE FROM unrouted_events WHERE id IN ({numbers}) RETURNING id"
_SHORTEN = "UPDATE unrouted_events SET events = ?, number = ? WHERE id = ? AND length(events) = ?"


async def list_projects(database: Database) -> set[ProjectId]:
    return {ProjectId(id) for (id,) in await database.fetch(_select_projects, {})}


async def count_events(database: Database) -> Mapping[ProjectId, int]:
    return {ProjectId(id): int(n) for id, n in await database.fetch(_select_counts, {})}


async def fetch_first(database: Database, project_id: ProjectId) -> list[tuple[Any, ...]]:
    """Fetch the first rows of a project, of bounded size."""
    params = {"project_id": project_id, "limit": MAX_ROWS}
    found: list[tuple[Any, ...]] = []
    size = 0
    for row in await database.fetch(_select_first, params):
        size += len(row[2])
        if found and size > FAN_OUT_BYTES:
            break
        found.append(row)
    return found


def add_rows(connection: Connection, rows: Sequence[ProcessedRow]) -> None:
    """Add the events of rows. Call this in the transaction that removes them elsewhere."""
    values = [
        {
            "project_id": row.project_id,
            "events": pack_single_row(row.events),
            "number": len(row.events),
        }
        for row in rows
    ]
    if values:
        connection.execute(insert(table), values)


def remove_rows(connection: Connection, rows: Sequence[ProcessedRow]) -> set[int]:
    """Remove the events of rows, but not the rest of each. Return the rows of which this has
    removed some: not those that another process was faster with."""
    ended = [row.id for row in rows if not row.rest]
    removed = {id for (id,) in bulk.select(connection, _DELETE, ended)} if ended else set()
    for row in rows:
        if row.rest:
            values = (pack_single_row(row.rest), len(row.rest), row.id, row.size)
            if bulk.execute(connection, _SHORTEN, *values):
                removed.add(row.id)
    return removed
