"""Cached query results, and how long they stay valid."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar

from hedgerow.projects.model import ProjectId
from hedgerow.queries.byte_cache import ByteCache

MAX_BYTES = 32 << 20
# A larger result would evict all others.
MAX_ENTRY_BYTES = MAX_BYTES // 8
# An estimate of what a result takes in addition to its rows.
OVERHEAD_BYTES = 4096

R = TypeVar("R")

# Returns a value that changes with each change of any process; None while accepted events are not
# readable.
FetchState = Callable[[ProjectId], Awaitable[str | int | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedResult(Generic[R]):
    """A result of `size` bytes. `state` is that from before the query ran at `at`."""

    result: R
    size: int
    state: str | int | None
    at: datetime


class ResultCache(ByteCache[tuple[ProjectId, str], CachedResult[R]]):
    """Results by project and cache key."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        super().__init__(
            max_bytes,
            size_of=lambda cached: cached.size,
            overhead_bytes=OVERHEAD_BYTES,
            max_entry_bytes=MAX_ENTRY_BYTES,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Freshness:
    """How long a result may be reused if nothing has changed. A query may depend on the current
    time, so an old result is not valid even then."""

    max_age: timedelta

    async def is_fresh(
        self,
        cached: CachedResult[Any],
        fetch_state: Callable[[], Awaitable[str | int | None]],
        now: datetime,
    ) -> bool:
        # Not from the future, which is a result from before the clock was set back.
        if cached.state is None or not timedelta(0) <= now - cached.at < self.max_age:
            return False
        return cached.state == await fetch_state()
