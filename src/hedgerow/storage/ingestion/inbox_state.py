"""How much waits in the inbox, and how far it is: by project, for readers and for admission."""

from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection, func, select, text

from hedgerow.ingestion.store import UNKNOWN_PROJECT, InboxBacklog, InboxPositions
from hedgerow.projects.model import ProjectId
from hedgerow.storage.engine.database import Database, PreparedQuery
from hedgerow.storage.tables.ingestion import inbox, ready_events

_select_positions = PreparedQuery(
    select(
        *(
            select(function(table.c.id)).scalar_subquery()
            for table in (inbox, ready_events)
            for function in (func.min, func.max)
        )
    )
)
_BACKLOG = text(
    "SELECT 0 AS step, project_id, sum(number) FROM inbox GROUP BY project_id"
    " UNION ALL SELECT 1, project_id, sum(number) FROM ready_events GROUP BY project_id"
)
_select_backlog = PreparedQuery(_BACKLOG)


def build_positions_query(buckets: int, store_buckets: int) -> PreparedQuery:
    """Return a query for the positions of one project: a look-up in the index for each bucket."""
    unprocessed = _select_range("inbox", range(buckets), "(:project_id)")
    unstored = _select_range(
        "ready_events", range(store_buckets), f"(:project_id), ({UNKNOWN_PROJECT})"
    )
    return PreparedQuery(text(f"SELECT * FROM ({unprocessed}) AS u, ({unstored}) AS s"))  # noqa: S608 - our own names


def _select_range(table: str, buckets: Iterable[int], projects: str) -> str:
    """Select the first and the last id of some projects."""
    numbers = ", ".join(f"({bucket})" for bucket in buckets)
    own = f"FROM {table} AS t WHERE t.bucket = b.bucket AND t.project_id = p.id"
    return (
        f"SELECT min((SELECT min(t.id) {own})) AS first, max((SELECT max(t.id) {own})) AS last"  # noqa: S608 - our own names
        f" FROM (SELECT column1 AS bucket FROM (VALUES {numbers}) AS v) AS b,"
        f" (SELECT CAST(column1 AS bigint) AS id FROM (VALUES {projects}) AS w) AS p"
    )


async def fetch_positions(
    database: Database, of_project: PreparedQuery, project_id: ProjectId | None
) -> InboxPositions:
    """Return the positions of a project, or of all."""
    if project_id is None:
        ((*found,),) = await database.fetch(_select_positions, {})
    else:
        ((*found,),) = await database.fetch(of_project, {"project_id": project_id})
    names = InboxPositions.__struct_fields__
    known = {name: id for name, id in zip(names, found, strict=True) if id is not None}
    return InboxPositions(**known)


async def count_backlog(database: Database) -> InboxBacklog:
    return _build_backlog(await database.fetch(_select_backlog, {}))


def read_backlog(connection: Connection) -> InboxBacklog:
    """The same, for commands."""
    return _build_backlog(connection.execute(_BACKLOG))


def _build_backlog(rows: Iterable[Any]) -> InboxBacklog:
    unprocessed: dict[ProjectId, int] = {}
    unstored: dict[ProjectId, int] = {}
    for step, project_id, number in rows:
        if number:
            (unstored if step else unprocessed)[ProjectId(project_id)] = int(number)
    return InboxBacklog(unprocessed=unprocessed, unstored=unstored)
