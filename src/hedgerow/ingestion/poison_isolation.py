"""Isolate an event that makes its batch fail, so that it becomes a dead letter alone.

When a batch fails, the next batch is half as large, until a single event fails. The events before
it are processed on the way, in their order. Afterwards the batch size doubles step by step, because
bad events often come in groups. A single event is tried twice before it becomes a dead letter.
"""

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any, Generic, TypeVar

from msgspec.structs import replace

from hedgerow.ingestion.model import QueueRow
from hedgerow.ingestion.store import Stage
from hedgerow.lib.text import describe_error

Row = TypeVar("Row", bound=QueueRow[Any])
# Whether the events caused an error, so that it would not occur with other events.
IsDataError = Callable[[Exception], bool]
# Called for each dead letter with the stage, the uuid, the reason, and the error if there was one.
OnDeadLetter = Callable[[Stage, str, str, Exception | None], None]


class BatchBisector(Generic[Row]):
    """Runs one stage. `batch_size` is the usual number of events per batch. `dead_letter` gets the
    bucket, the row and the reason; it returns False if another worker holds the bucket."""

    def __init__(
        self,
        stage: Stage,
        batch_size: int,
        is_data_error: IsDataError,
        on_dead_letter: OnDeadLetter,
        dead_letter: Callable[[int, Row, str], Awaitable[bool]],
    ) -> None:
        self._stage = stage
        self._batch_size = batch_size
        self._is_data_error = is_data_error
        self._on_dead_letter = on_dead_letter
        self._dead_letter: Callable[[int, Row, str], Awaitable[bool]] = dead_letter
        # The reduced batch sizes of the buckets in which a bad event is being isolated.
        self._limits: dict[int, int] = {}
        # The single event that failed last in a bucket: the id of its row and what follows there.
        self._suspects: dict[int, tuple[int, int]] = {}
        self.dead_letter_count = 0

    @property
    def is_isolating(self) -> bool:
        return bool(self._limits)

    def forget_other_buckets(self, buckets: Collection[int]) -> None:
        """Stop isolating in all buckets but these: the others are empty."""
        self._limits = {each: self._limits[each] for each in buckets if each in self._limits}

    def select_rows(self, bucket: int, rows: Sequence[Row]) -> Sequence[Row]:
        """Return the rows, or the part of the first row, to try next. A row that cannot be decoded
        is returned alone."""
        if not rows:
            self._limits.pop(bucket, None)
        limit = self._limits.get(bucket)
        if limit is None:
            if not any(row.problem for row in rows):
                return rows
            limit = self._batch_size
        selected: list[Row] = []
        for row in rows:
            if limit <= 0 or (selected and row.problem):
                break
            selected.append(cut_row(row, limit))
            limit -= _count_events(row)
            if row.problem:
                break
        return selected

    async def run(
        self, bucket: int, rows: Sequence[Row], work: Callable[[Sequence[Row]], Awaitable[bool]]
    ) -> bool:
        """Try `work` on these rows. Returns whether they are done, as dead letters or otherwise.
        If not, the next fetch returns them again."""
        if rows[0].problem:
            return await self._give_up(bucket, rows[0], rows[0].problem, None)
        try:
            is_done = await work(rows)
        except Exception as error:
            number = sum(map(_count_events, rows))
            # A smaller batch needs less memory. A single event is not at fault for the lack of it.
            if not self._is_data_error(error) and not (
                isinstance(error, MemoryError) and number > 1
            ):
                raise
            if number == 1 and self._has_failed_before(bucket, rows[0]):
                return await self._give_up(bucket, rows[0], describe_error(error), error)
            self._limits[bucket] = max(1, number // 2)
            return False
        limit = self._limits.pop(bucket, self._batch_size)
        if 2 * limit < self._batch_size:
            self._limits[bucket] = 2 * limit
        return is_done

    def _has_failed_before(self, bucket: int, row: Row) -> bool:
        """Remember the single event, and return whether it was the last one to fail: a first
        failure may be a coincidence."""
        before, now = self._suspects.get(bucket), (row.id, len(row.rest))
        self._suspects[bucket] = now
        return before == now

    async def _give_up(self, bucket: int, row: Row, reason: str, error: Exception | None) -> bool:
        if not await self._dead_letter(bucket, row, reason):
            return False
        self.dead_letter_count += _count_events(row) if error else max(1, row.number)
        self._on_dead_letter(self._stage, row.events[0].uuid if row.events else "", reason, error)
        return True


def _count_events(row: QueueRow[Any]) -> int:
    return max(1, len(row.events))


def cut_row(row: Row, limit: int) -> Row:
    """Return the row with its first events; the others stay in it."""
    if len(row.events) <= limit:
        return row
    return replace(
        row,
        events=row.events[:limit],
        rest=[*row.events[limit:], *row.rest],
        number=min(row.number, limit),
    )
