"""Selects deliveries for a destination that keeps order per distinct id.

Deliveries whose distinct id has a pending retry are blocked. Many may be blocked, so a blocked
prefix of the queue is not read again until one of the retries in front of it has ended.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Text, bindparam, literal_column, select

from hedgerow.pipelines.model import RecordId
from hedgerow.storage.deliveries.batches import Batch, fetch_batches
from hedgerow.storage.engine import bulk
from hedgerow.storage.engine.database import Database, PreparedQuery
from hedgerow.storage.tables import deliveries as table

# Events whose distinct ids are read at once.
WINDOW_EVENTS = 2000
# With several processes, a batch with a lower id may still become visible within this time.
STABLE_AFTER_MS = 60_000

_select_retried_ids = PreparedQuery(
    select(table.c.distinct_id)
    .where(
        (table.c.record_id == bindparam("record_id"))
        & (table.c.status == literal_column("'retrying'", Text))
    )
    .distinct()
)
_SELECT_SENDERS = "SELECT id, distinct_id FROM delivery_events WHERE id IN ({numbers})"


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedPrefix:
    """Every event of the batches up to id `last` is blocked by one of these distinct ids."""

    blocked_ids: frozenset[str]
    last: int


class OrderedQueue:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._skipped: dict[RecordId, SkippedPrefix] = {}

    async def fetch_sendable(self, record_id: RecordId, limit: int, now_ms: int) -> list[Batch]:
        """Return batches of events that may be sent now, without the others, until there are
        enough."""
        rows = await self._database.fetch(_select_retried_ids, {"record_id": record_id})
        behind = frozenset(distinct_id for (distinct_id,) in rows)
        if not behind:
            self._skipped.pop(record_id, None)
            return await fetch_batches(self._database, record_id, limit)
        passed = self._skipped.pop(record_id, None)
        # If a blocking retry has ended, start from the beginning of the queue again.
        last = passed.last if passed is not None and passed.blocked_ids <= behind else 0
        found: list[Batch] = []
        after = last
        while limit > 0:
            window = await fetch_batches(self._database, record_id, WINDOW_EVENTS, after)
            for batch in await self._drop_blocked(window, behind):
                if batch.event_ids:
                    found.append(batch)
                    limit -= len(batch.event_ids)
                elif not found and batch.created_ms < now_ms - STABLE_AFTER_MS:
                    last = batch.id
            if sum(len(batch.event_ids) for batch in window) < WINDOW_EVENTS:
                break
            after = window[-1].id
            await asyncio.sleep(0)  # let other tasks run
        if last:
            self._skipped[record_id] = SkippedPrefix(blocked_ids=behind, last=last)
        return found

    async def _drop_blocked(self, window: Sequence[Batch], behind: frozenset[str]) -> list[Batch]:
        ids = [id for batch in window for id in batch.event_ids]
        senders: dict[int, str] = dict(
            await self._database.read(
                lambda connection: bulk.select(connection, _SELECT_SENDERS, ids)
            )
        )
        return [
            replace(
                batch, event_ids=[id for id in batch.event_ids if senders.get(id) not in behind]
            )
            for batch in window
        ]
