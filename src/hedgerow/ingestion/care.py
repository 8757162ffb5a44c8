"""One event that cannot be worked on keeps nobody else's: it is found, and set aside.

Where a step fails, less is taken at a time, until what fails is a single event. Whatever can be
done with the others is done meanwhile, in their order. Afterwards more is taken again, step by
step: bad events seldom come alone. A single event is tried twice before it is given up.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from msgspec.structs import replace

from hedgerow.ingestion.model import Accepted
from hedgerow.ingestion.store import Ready, Stage
from hedgerow.lib.telling import describe_error

Row = TypeVar("Row", Accepted, Ready)
# Whether an error is due to what was worked on: with other events there would be none.
Blames = Callable[[Exception], bool]
# Hears of each that is set aside: the step, its uuid, why, and the error if there was one.
Note = Callable[[Stage, str, str, Exception | None], None]


class Careful(Generic[Row]):
    """One step, which takes `usual` events at once from a bucket. `set_aside` is told the row and
    why, and answers False if another process works on the bucket."""

    def __init__(
        self,
        stage: Stage,
        usual: int,
        blames: Blames,
        note: Note,
        set_aside: Callable[[int, Row, str], Awaitable[bool]],
    ) -> None:
        self._stage = stage
        self._usual = usual
        self._blames = blames
        self._note = note
        self._set_aside: Callable[[int, Row, str], Awaitable[bool]] = set_aside
        # Of buckets in which something is looked for, how many are taken at once.
        self._limits: dict[int, int] = {}
        # The one that failed alone, by its row and what stands behind it there.
        self._suspects: dict[int, tuple[int, int]] = {}
        # How many were set aside.
        self.number = 0

    @property
    def is_searching(self) -> bool:
        return bool(self._limits)

    def look_at(self, buckets: Sequence[int]) -> None:
        """In other buckets there is nothing to look for any more."""
        self._limits = {each: self._limits[each] for each in buckets if each in self._limits}

    def some_of(self, bucket: int, rows: Sequence[Row]) -> Sequence[Row]:
        """As many of these rows, or of the first one's events, as are worth an attempt. A row that
        cannot be read comes alone."""
        if not rows:
            self._limits.pop(bucket, None)
        left = self._limits.get(bucket)
        if left is None:
            if not any(row.problem for row in rows):
                return rows
            left = self._usual
        some: list[Row] = []
        for row in rows:
            if left <= 0 or (some and row.problem):
                break
            some.append(_part(row, left))
            left -= _weight(row)
            if row.problem:
                break
        return some

    async def attempt(
        self, bucket: int, rows: Sequence[Row], work: Callable[[Sequence[Row]], Awaitable[bool]]
    ) -> bool:
        """Whether these rows are done with, one way or the other. If not, they are found again."""
        if rows[0].problem:
            return await self._give_up(bucket, rows[0], rows[0].problem, None)
        try:
            is_done = await work(rows)
        except Exception as error:
            number = sum(map(_weight, rows))
            # Fewer need less memory. If one needs too much, it is not that one's fault.
            if not self._blames(error) and not (isinstance(error, MemoryError) and number > 1):
                raise
            if number == 1 and self._is_suspected(bucket, rows[0]):
                return await self._give_up(bucket, rows[0], describe_error(error), error)
            self._limits[bucket] = max(1, number // 2)
            return False
        limit = self._limits.pop(bucket, self._usual)
        if 2 * limit < self._usual:
            self._limits[bucket] = 2 * limit
        return is_done

    def _is_suspected(self, bucket: int, row: Row) -> bool:
        """Once may be chance: it was so the last time, too."""
        before, now = self._suspects.get(bucket), (row.id, len(row.rest))
        self._suspects[bucket] = now
        return before == now

    async def _give_up(self, bucket: int, row: Row, reason: str, error: Exception | None) -> bool:
        if not await self._set_aside(bucket, row, reason):
            return False
        self.number += _weight(row) if error else max(1, row.number)
        self._note(self._stage, row.events[0].uuid if row.events else "", reason, error)
        return True


def _weight(row: Accepted | Ready) -> int:
    return max(1, len(row.events))


def _part(row: Row, at_most: int) -> Row:
    if len(row.events) <= at_most:
        return row
    return replace(
        row,
        events=row.events[:at_most],
        rest=row.events[at_most:],
        number=min(row.number, at_most),
    )
