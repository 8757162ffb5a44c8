"""Group commit of appended rows on PostgreSQL: rows of many callers share one statement and one
transaction, which otherwise costs forty times as much as a row.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from hedgerow.errors import Unavailable
from hedgerow.storage.engine.database import PreparedInsert, Rows

MAX_GROUP_ROWS = 2000
MAX_GROUP_BYTES = 16 * 1024 * 1024


@dataclass(slots=True, eq=False)
class AppendRequest:
    future: asyncio.Future[None]
    to: PreparedInsert
    rows: Rows


class AppendGroups:
    """Rows that arrive while `max_running` groups are being inserted form the next group. `insert`
    inserts all rows or none."""

    def __init__(
        self, insert: Callable[[PreparedInsert, Rows], Awaitable[None]], max_running: int
    ) -> None:
        self._insert = insert
        self._max_running = max_running
        self._queue: deque[AppendRequest] = deque()
        self._running: set[asyncio.Task[None]] = set()
        self.appended = 0

    @property
    def waiting(self) -> int:
        return len(self._queue)

    async def append(self, to: PreparedInsert, rows: Rows) -> None:
        """Insert the rows. They are inserted even if the caller is cancelled."""
        future = asyncio.get_running_loop().create_future()
        self._queue.append(AppendRequest(future, to, rows))
        if len(self._running) < self._max_running:
            task = asyncio.create_task(self._run())
            self._running.add(task)
            task.add_done_callback(self._running.discard)
        await future

    async def _run(self) -> None:
        while self._queue:
            await self._insert_group(self._take_group())

    def _take_group(self) -> list[AppendRequest]:
        group = [self._queue.popleft()]
        rows, size = len(group[0].rows), _measure(group[0].rows)
        while self._queue and self._queue[0].to is group[0].to:
            rows += len(self._queue[0].rows)
            size += _measure(self._queue[0].rows)
            if rows > MAX_GROUP_ROWS or size > MAX_GROUP_BYTES:
                break
            group.append(self._queue.popleft())
        return group

    async def _insert_group(self, group: list[AppendRequest]) -> None:
        try:
            await self._insert(group[0].to, [row for each in group for row in each.rows])
        except Unavailable as error:
            # The next group would wait as long for the same error.
            _fail([*group, *self._queue], error)
            self._queue.clear()
        except Exception as error:  # noqa: BLE001 - passed on to the waiting callers
            if len(group) == 1:
                _fail(group, error)
                return
            for each in group:  # find the request with the bad row; only that one fails
                await self._insert_group([each])
        else:
            self.appended += len(group)
            for each in group:
                if not each.future.done():
                    each.future.set_result(None)


def _measure(rows: Rows) -> int:
    return sum(len(value) for row in rows for value in row if isinstance(value, bytes))


def _fail(requests: list[AppendRequest], error: Exception) -> None:
    for each in requests:
        if not each.future.done():
            each.future.set_exception(error)
