"""Fetches rows that wait for the next step: all that wait in their order, and if these are more
than a batch, the first ones of each project, so that none waits for the backlog of another.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from sqlalchemy import Connection, Integer, Table, bindparam, literal_column, select, text

from hedgerow.lib.workers.fair_queue import Turns
from hedgerow.projects.model import ProjectId
from hedgerow.storage.engine.database import Database, PreparedQuery

T = TypeVar("T")

# Rows may be large: fetch a few, then twice as many, until there are enough.
MIN_FETCH_ROWS = 8
# A large event costs as much as several small ones.
BYTES_PER_EVENT = 2048
# More is read in a thread: on SQLite a query holds the event loop.
MAX_INLINE_BYTES = 1 << 20
# With more projects in a batch, the share of each is too small for its transaction.
MAX_PROJECTS_PER_BATCH = 50
# How many waiting projects to look for at a time. The next batch begins with those after them.
MAX_LISTED_PROJECTS = 200

# A literal: SQLAlchemy would use a bound parameter on SQLite.
_ZERO = literal_column("0", Integer)
# One look-up in the index for each project, however many rows it has.
_PROJECTS = """
WITH RECURSIVE waiting (project_id) AS (
    SELECT min(project_id) FROM {table} WHERE bucket = :bucket AND project_id > :after
    UNION ALL
    SELECT (
        SELECT min(project_id) FROM {table}
        WHERE bucket = :bucket AND project_id > waiting.project_id
    )
    FROM waiting WHERE waiting.project_id IS NOT NULL
)
SELECT project_id FROM waiting WHERE project_id IS NOT NULL LIMIT :limit
"""
# Below all projects, also the unknown one.
_BEFORE_ALL = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLimits:
    events: int
    size: int


@dataclass(slots=True, kw_only=True)
class _Found:
    """`is_all` tells that no row is left behind these."""

    rows: list[tuple[Any, ...]]
    events: int
    size: int
    is_all: bool = False


class WaitingRows:
    """Rows of `inbox` or `ready_events`, as (id, number of events, encoded events, project)."""

    def __init__(self, database: Database, table: Table) -> None:
        self._database = database
        first = select(table.c.id, table.c.number, table.c.events, table.c.project_id).where(
            (table.c.bucket == bindparam("bucket")) & (table.c.id > bindparam("after"))
        )
        limited = first.order_by(table.c.id).limit(bindparam("limit")).offset(_ZERO)
        is_own = table.c.project_id == bindparam("project_id")
        self._select_all = PreparedQuery(limited)
        self._select_of_project = PreparedQuery(limited.where(is_own))
        self._select_projects = PreparedQuery(text(_PROJECTS.format(table=table.name)))
        self._turns = Turns[ProjectId]()
        # How many rows the last fetch of each query needed, and the size of its rows.
        self._row_estimates: dict[PreparedQuery, int] = {}
        self._row_sizes: dict[PreparedQuery, int] = {}
        # For each bucket, the last project that was listed, if there were too many.
        self._last_listed: dict[int, int] = {}

    async def fetch(self, bucket: int, limits: BatchLimits) -> list[tuple[Any, ...]]:
        """Fetch a batch, with the rows of each project in their order."""
        found = await self._fetch_in_order(bucket, limits)
        if found.is_all:
            return found.rows
        projects = await self._list_projects(bucket)
        return found.rows if len(projects) < 2 else await self._take_turns(bucket, projects, limits)

    async def fetch_after(
        self, bucket: int, after: int, limits: BatchLimits
    ) -> list[tuple[Any, ...]]:
        """Fetch the first rows after this one."""
        return (await self._fetch_in_order(bucket, limits, after)).rows

    async def _fetch_in_order(self, bucket: int, limits: BatchLimits, after: int = 0) -> _Found:
        return await self.fetch_first(self._select_all, {"bucket": bucket, "after": after}, limits)

    async def _list_projects(self, bucket: int) -> list[ProjectId]:
        after = self._last_listed.get(bucket, _BEFORE_ALL)
        projects = await self._list_projects_after(bucket, after, MAX_LISTED_PROJECTS)
        if after != _BEFORE_ALL and (left := MAX_LISTED_PROJECTS - len(projects)):
            more = await self._list_projects_after(bucket, _BEFORE_ALL, left)
            projects += [each for each in more if each <= after]
        is_full = len(projects) == MAX_LISTED_PROJECTS
        self._last_listed[bucket] = projects[-1] if is_full else _BEFORE_ALL
        return projects

    async def _list_projects_after(self, bucket: int, after: int, limit: int) -> list[ProjectId]:
        params = {"bucket": bucket, "after": after, "limit": limit}
        return [id for (id,) in await self._database.fetch(self._select_projects, params)]

    async def _take_turns(
        self, bucket: int, projects: list[ProjectId], limits: BatchLimits
    ) -> list[tuple[Any, ...]]:
        """Fetch the first rows of several projects: of each its share of what is left, and what
        some do not need for the others."""
        rows: list[tuple[Any, ...]] = []
        events, size = limits.events, limits.size
        last_ids = dict.fromkeys(self._turns.sort(projects)[:MAX_PROJECTS_PER_BATCH], 0)
        while last_ids and events > limits.events // 4:
            for left, (project_id, last_id) in _count_down(list(last_ids.items())):
                share = BatchLimits(events=max(1, events // left), size=max(1, size // left))
                params = {"bucket": bucket, "project_id": project_id, "after": last_id}
                found = await self.fetch_first(self._select_of_project, params, share)
                self._turns.charge(project_id, found.events + found.size / BYTES_PER_EVENT)
                rows += found.rows
                events -= found.events
                size -= found.size
                last_ids[project_id] = found.rows[-1][0] if found.rows else last_id
                if found.is_all:
                    del last_ids[project_id]
                if events <= 0 or size <= 0:
                    return rows
        return rows

    async def fetch_first(
        self, query: PreparedQuery, params: Mapping[str, Any], limits: BatchLimits
    ) -> _Found:
        """Fetch the first rows of a query, which has the parameters `after` and `limit`. The second
        column is the number of events, the third one their size or the events. At least one row,
        if there is one."""
        found = _Found(rows=[], events=0, size=0)
        step = self._row_estimates.get(query, MIN_FETCH_ROWS)
        while found.events < limits.events and found.size < limits.size:
            after = found.rows[-1][0] if found.rows else params["after"]
            rows = await self._read(query, {**params, "after": after, "limit": step})
            for row in rows:
                # A retried dead letter has number 0 but is work nevertheless.
                number = max(1, row[1])
                length = row[2] if isinstance(row[2], int) else len(row[2])
                has_room = (
                    found.events + number <= limits.events and found.size + length <= limits.size
                )
                if found.rows and not has_room:
                    return self._note_estimate(query, found)
                found.rows.append(row)
                found.events += number
                found.size += length
            if len(rows) < step:
                found.is_all = True
                break
            step *= 2
        return self._note_estimate(query, found)

    def _note_estimate(self, query: PreparedQuery, found: _Found) -> _Found:
        self._row_estimates[query] = max(MIN_FETCH_ROWS, len(found.rows) + 1)
        self._row_sizes[query] = found.size // max(1, len(found.rows))
        return found

    async def _read(
        self, query: PreparedQuery, params: Mapping[str, Any]
    ) -> Sequence[tuple[Any, ...]]:
        if self._row_sizes.get(query, 0) * params["limit"] < MAX_INLINE_BYTES:
            return await self._database.fetch(query, params)

        def run(connection: Connection) -> list[tuple[Any, ...]]:
            return [tuple(row) for row in connection.execute(query.statement, params)]

        return await self._database.read_in_background(run)


def _count_down(items: list[T]) -> Iterator[tuple[int, T]]:
    """Yield the items, each with how many are left with it."""
    return zip(range(len(items), 0, -1), items, strict=True)
