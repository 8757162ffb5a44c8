"""The event store, as domain packages use it. Implemented in `storage/events/`."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol, TypeVar

from hedgerow.errors import Invalid
from hedgerow.events.listing.record import EventPerson
from hedgerow.events.model import Event, EventKey
from hedgerow.projects.model import ProjectId

T = TypeVar("T")


class EventStore(Protocol):
    async def append(self, events: Sequence[Event]) -> int:
        """Add events and return how many are new. They are durable when this returns. Events whose
        uuid the project already has are skipped, so the call can be repeated."""
        ...

    async def acceptances(self, keys: Sequence[EventKey]) -> Mapping[EventKey, datetime]:
        """Return when each of these events was accepted. Events that are not stored are left
        out."""
        ...

    async def delete(
        self,
        project_id: ProjectId,
        *,
        uuids: Sequence[str] = (),
        distinct_ids: Sequence[str] = (),
        event: str = "",
        before: datetime | None = None,
    ) -> int:
        """Delete the events that match all conditions and return their number. At least one
        condition is required. The events are invisible to every reader when this returns."""
        ...


class ResultTooLarge(Invalid):
    """A result that needs too much memory or has too many bytes. A result with fewer rows may
    fit."""

    status, type, code = 400, "validation_error", "query_limit_exceeded"
    default_detail = "The result is too large. Request fewer rows or fewer columns."


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryLimits:
    """The resources that a query may use. On timeout the query raises Invalid, or returns the rows
    found so far if `is_partial_on_timeout`. `on_abort` is called if the query could only be ended
    with the engine. Senders take turns with the worker processes."""

    timeout_s: float
    max_rows: int
    max_bytes: int
    is_partial_on_timeout: bool = False
    on_abort: Callable[[], None] | None = None
    sender: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryResult:
    """The rows of a query and the types of its columns."""

    types: Sequence[str]
    rows: Sequence[Sequence[Any]]


# Turns a result into what its reader needs. It may run in another process: a function of a module,
# or a `partial` of one, that returns bytes rather than many values.
Shape = Callable[[QueryResult], T]


class EventReader(Protocol):
    @property
    def reads_typed_columns(self) -> bool:
        """Whether typed columns are the faster way to properties. The result is the same."""
        ...

    async def read(
        self,
        sql: str,
        parameters: Mapping[str, Any],
        limits: QueryLimits,
        tables: Mapping[str, bytes] = {},
    ) -> QueryResult:
        """Run a read-only query. Raises Invalid for a query that cannot be run. For columns that a
        client chooses, use `read_shaped`. `tables` are sent with the query: each has a column `k`,
        and its rows in the format TabSeparated."""
        ...

    async def read_shaped(
        self,
        sql: str,
        parameters: Mapping[str, Any],
        limits: QueryLimits,
        shape: Shape[T],
        tables: Mapping[str, bytes] = {},
    ) -> T:
        """Run a read-only query and return its result in the given shape. A large result never
        becomes Python values in this process."""
        ...


class EventPersons(Protocol):
    async def persons_of(
        self, project_id: ProjectId, distinct_ids: Collection[str]
    ) -> Mapping[str, EventPerson]:
        """Return the current persons of these distinct ids. Ids without a person are left out."""
        ...
