"""Storage of kept results and of the queue of those to compute, implemented in
`storage/dashboards/results.py`."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol

from hedgerow.projects.model import ProjectId

MAX_PROJECT_RESULTS = 5_000
MAX_PROJECT_BYTES = 64 << 20
MAX_BYTES = 512 << 20
# Results that were not read for this long are deleted.
RETENTION = timedelta(days=30)
# Computations that may wait.
MAX_WAITING_PER_PROJECT = 1_000
MAX_WAITING = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadState:
    """What queries of a project read. `text` changes with it. Without `is_settled` accepted events
    or changed persons are not readable yet."""

    text: str
    is_settled: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultRow:
    """The last result of a query, if there is one, and what became of later attempts. `state` is
    that from before the query ran. `error` is the last failure since the result."""

    key: str
    state: str
    computed_at: datetime | None
    used_at: datetime
    wanted_at: datetime | None
    claimed_until: datetime | None
    failures: int
    error: str
    result: bytes | None = None

    @property
    def progress(self) -> tuple[datetime | None, int]:
        """Changes with every computation, successful or not."""
        return self.computed_at, self.failures

    def is_computed_since(self, moment: datetime | None) -> bool:
        return moment is not None and self.computed_at is not None and self.computed_at >= moment


@dataclass(frozen=True, slots=True, kw_only=True)
class Computation:
    """A result that this process has claimed."""

    project_id: ProjectId
    key: str
    query: Mapping[str, Any]
    claimed_until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class NewResult:
    result: bytes
    state: str
    computed_at: datetime


class ResultStore(Protocol):
    async def fetch_state(self, project_id: ProjectId) -> ReadState: ...

    async def find(
        self, project_id: ProjectId, keys: Collection[str], *, with_result: bool
    ) -> Mapping[str, ResultRow]: ...

    async def request(
        self,
        project_id: ProjectId,
        queries: Mapping[str, Mapping[str, Any]],
        now: datetime,
        *,
        unless_since: datetime | None = None,
    ) -> Mapping[str, ResultRow]:
        """Queue queries by key, except results that were computed since `unless_since`, and return
        their rows from before. Raises Throttled if too many wait."""
        ...

    async def claim(
        self, busy: Collection[ProjectId], last: ProjectId, now: datetime, until: datetime
    ) -> Computation | None:
        """Claim the oldest computation of the next project after `last`, in the order of ids, that
        is not in `busy`. No other process gets it until that time."""
        ...

    async def save(self, of: Computation, new: NewResult, now: datetime) -> None:
        """Store a result, and delete those of the project that were used longest ago if it has too
        many. Does nothing if data was deleted since the claim, or the claim expired and another
        process has it."""
        ...

    async def record_failure(self, of: Computation, error: str) -> None: ...

    async def release(self, of: Computation) -> None:
        """Let another process compute it, unless one already does."""
        ...

    async def mark_used(
        self, project_id: ProjectId, keys: Sequence[str], now: datetime
    ) -> None: ...

    async def list_outdated(
        self, *, used_since: datetime, computed_before: datetime, limit: int
    ) -> Sequence[tuple[ProjectId, str, Mapping[str, Any], str]]:
        """Return results that are in use: project, key, query and state."""
        ...

    async def delete_unused(self, now: datetime) -> None:
        """Delete the results that were not read for long, and more of them if all results
        together are too large."""
        ...
