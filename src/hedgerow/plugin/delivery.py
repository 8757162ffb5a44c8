"""What a destination's `deliver` receives: its context, and targets for files and tables."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol, TypeVar

from hedgerow.events.model import Event
from hedgerow.plugin.database_address import DatabaseAddress
from hedgerow.plugin.deprecated import warn_renamed
from hedgerow.plugin.http import HttpClient, TransportError
from hedgerow.plugin.outcomes import Outcome

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileTarget:
    """A folder below the exports folder, and when a file in it is complete.

    `format` is `jsonl` or `parquet`. With `max_age_s=0` every append writes a file of its own.
    """

    folder: str
    format: str
    max_bytes: int
    max_age_s: float


class FileWriter(Protocol):
    """Appends to files below the exports folder."""

    async def append(self, target: FileTarget, lines: bytes) -> str:
        """Store lines of JSON durably and return the name that their file will have once it is
        complete. Raises TransportError if they cannot be stored."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TableTarget:
    """A table in an external PostgreSQL database."""

    address: DatabaseAddress
    schema: str
    table: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InsertResult:
    """`inserted_rows` counts rows that are new; `rejected` maps the index of an event to the reason
    why PostgreSQL can never store it."""

    statement: str
    inserted_rows: int
    rejected: Mapping[int, str]


class TableWriter(Protocol):
    """Inserts events into tables of external PostgreSQL databases."""

    async def insert(self, target: TableTarget, events: Sequence[Event]) -> InsertResult:
        """Insert one row per event and skip events that the table already has. Creates the table if
        needed. Raises TransportError if the database cannot be reached or refuses."""
        ...


class RunInThread(Protocol):
    """Runs a blocking function in a thread and returns its result."""

    async def __call__(self, work: Callable[[], T], /) -> T: ...


# Raises TransportError unless connections to this IP address are allowed.
CheckAddress = Callable[[str], None]


def refuse_address(address: str) -> None:
    """Refuse every address: a preview connects to nothing."""
    raise TransportError(f"{address} is not contacted: this context has no network.")


class _Unavailable(FileWriter, TableWriter):
    async def append(self, target: FileTarget, lines: bytes) -> str:
        raise TransportError("This context has no file writer.")

    async def insert(self, target: TableTarget, events: Sequence[Event]) -> InsertResult:
        raise TransportError("This context has no table writer.")


UNAVAILABLE = _Unavailable()


async def run_inline(work: Callable[[], T], /) -> T:
    """Run a function on the event loop. For tests."""
    return work()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryContext:
    """Everything outside a component that it may use. Packages name the parameter `ctx`.

    Use no other HTTP client: `ctx.http` keeps requests away from your private network, and a
    preview shows the requests made through it. A destination with a protocol of its own calls
    `ctx.check_address` with each IP address before it connects. `await ctx.run_in_thread(function)`
    keeps work that computes or blocks off the event loop, which all destinations share.
    `ctx.traceparent` is the W3C trace context to send on, empty if there is none.
    """

    http: HttpClient
    now: datetime
    files: FileWriter = UNAVAILABLE
    tables: TableWriter = UNAVAILABLE
    run_in_thread: RunInThread = run_inline
    check_address: CheckAddress = refuse_address
    traceparent: str = ""

    @property
    def aside(self) -> RunInThread:
        """Deprecated name of `run_in_thread`."""
        warn_renamed("DeliveryContext.aside", "DeliveryContext.run_in_thread")
        return self.run_in_thread


# A component's `deliver`: one outcome for each event, in order.
Deliver = Callable[
    [Sequence[Event], Mapping[str, Any], DeliveryContext], Awaitable[Sequence[Outcome]]
]
