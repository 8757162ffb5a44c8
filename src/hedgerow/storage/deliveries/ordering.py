"""Selects deliveries for a destination that keeps order per distinct id.

Deliveries whose distinct id has a pending retry are blocked. Many may be blocked, so a blocked
prefix of the queue is not read again until one of the retries in front of it has ended.
"""

import asyncio
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Integer, Text, bindparam, func, literal_column, select

from hedgerow.pipelines.model import RecordId
from hedgerow.storage.engine.database import Database, PreparedQuery
from hedgerow.storage.tables import deliveries as table

WINDOW_ROWS = 2000
# With several processes, a row with a lower id may still become visible within this time.
STABLE_AFTER_MS = 60_000

_is_of_record = table.c.record_id == bindparam("record_id")
_select_retried_ids = PreparedQuery(
    select(table.c.distinct_id)
    .where(_is_of_record & (table.c.status == literal_column("'retrying'", Text)))
    .distinct()
)
_select_window = PreparedQuery(
    select(table.c.id, func.length(table.c.event), table.c.distinct_id, table.c.created_ms)
    .where(
        _is_of_record
        & (table.c.status == literal_column("'waiting'", Text))
        & (table.c.due_ms == literal_column("0", Integer))
        & (table.c.id > bindparam("after"))
    )
    .order_by(table.c.id)
    .limit(bindparam("limit"))
    .offset(literal_column("0", Integer))
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedPrefix:
    """Every waiting row up to id `last` is blocked by one of these distinct ids."""

    blocked_ids: frozenset[str]
    last: int


class OrderedQueue:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._skipped: dict[RecordId, SkippedPrefix] = {}

    async def fetch_sendable(
        self, record_id: RecordId, limit: int, now_ms: int
    ) -> list[tuple[Any, ...]]:
        """Return the ids and event sizes of deliveries that may be sent now."""
        rows = await self._database.fetch(_select_retried_ids, {"record_id": record_id})
        behind = frozenset(distinct_id for (distinct_id,) in rows)
        passed = self._skipped.pop(record_id, None)
        # If a blocking retry has ended, start from the beginning of the queue again.
        last = passed.last if passed is not None and passed.blocked_ids <= behind else 0
        found: list[tuple[Any, ...]] = []
        after = last
        while len(found) < limit:
            params = {"record_id": record_id, "after": after, "limit": WINDOW_ROWS}
            rows = await self._database.fetch(_select_window, params)
            for id, length, distinct_id, created_ms in rows:
                if distinct_id not in behind:
                    found.append((id, length))
                elif not found and created_ms < now_ms - STABLE_AFTER_MS:
                    last = id
            if len(rows) < WINDOW_ROWS:
                break
            after = rows[-1][0]
            await asyncio.sleep(0)  # let other tasks run
        if last:
            self._skipped[record_id] = SkippedPrefix(blocked_ids=behind, last=last)
        return found[:limit]
