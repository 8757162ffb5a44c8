"""What waits for a destination that keeps order, without those behind one that is being retried.

Much may wait behind one distinct id. What was passed over once is not looked at again until one of
those in the way has left it.
"""

import asyncio
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Integer, Text, bindparam, func, literal_column, select

from hedgerow.pipelines.model import RecordId
from hedgerow.storage.database import Database, HotRead
from hedgerow.storage.tables import deliveries as table

WINDOW = 2000
# Where several processes add rows, one may still come before others that are there already.
SETTLED_MS = 60_000

_of = table.c.record_id == bindparam("of")
_retried = HotRead(
    select(table.c.distinct_id)
    .where(_of & (table.c.status == literal_column("'retrying'", Text)))
    .distinct()
)
_window = HotRead(
    select(table.c.id, func.length(table.c.event), table.c.distinct_id, table.c.created_ms)
    .where(
        _of
        & (table.c.status == literal_column("'waiting'", Text))
        & (table.c.due_ms == literal_column("0", Integer))
        & (table.c.id > bindparam("after"))
    )
    .order_by(table.c.id)
    .limit(bindparam("most"))
    .offset(literal_column("0", Integer))
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Passed:
    """All that waits up to `last` is behind one of these."""

    behind: frozenset[str]
    last: int


class OrderedQueues:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._passed: dict[RecordId, Passed] = {}

    async def waiting(self, record_id: RecordId, limit: int, now_ms: int) -> list[tuple[Any, ...]]:
        """The ids of some that may be sent now, and the sizes of their events."""
        rows = await self._database.fetch(_retried, {"of": record_id})
        behind = frozenset(distinct_id for (distinct_id,) in rows)
        passed = self._passed.pop(record_id, None)
        # Who was passed over for the sake of one that has left comes first again.
        last = passed.last if passed is not None and passed.behind <= behind else 0
        found: list[tuple[Any, ...]] = []
        after = last
        while len(found) < limit:
            asked = {"of": record_id, "after": after, "most": WINDOW}
            rows = await self._database.fetch(_window, asked)
            for id, length, distinct_id, created_ms in rows:
                if distinct_id not in behind:
                    found.append((id, length))
                elif not found and created_ms < now_ms - SETTLED_MS:
                    last = id
            if len(rows) < WINDOW:
                break
            after = rows[-1][0]
            await asyncio.sleep(0)  # others have something to do too
        if last:
            self._passed[record_id] = Passed(behind=behind, last=last)
        return found[:limit]
