"""What a destination component works with: events, its settings, a way out, and what it answers.

A component's `deliver` is given some events and says for each what became of it. It keeps nothing:
the loop in deliver.py retries, counts and remembers.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol, TypeVar

from hedgerow.events.model import Event
from hedgerow.pipelines.database_address import DatabaseAddress

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Sent:
    """The other side has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """It has not, and why. `is_final` if trying again would change nothing; otherwise the other
    side may have said how long to wait. What `is_events_fault` says nothing about the destination,
    and where a whole batch failed, it may be the fault of one event in it."""

    reason: str
    is_final: bool = False
    is_events_fault: bool = False
    retry_after_s: float | None = None


Outcome = Sent | Failed

TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """`timeout_s` is how long the answer may take, from the first byte that is sent."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes
    timeout_s: float = TIMEOUT_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """`headers` by their lower-case names; of `body` as much as anybody may need to see."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """An answer that is read as it comes. Each of `parts` raises CannotSend if it does not."""

    status: int
    headers: Mapping[str, str]
    parts: AsyncIterator[bytes]


class CannotSend(Exception):
    """There was no answer: the address is refused, nobody listens, or it takes too long."""


class Outbound(Protocol):
    async def send(self, request: Request) -> Response:
        """The answer, or CannotSend. Redirects are answers."""
        ...

    def stream(self, request: Request) -> AbstractAsyncContextManager[Stream]:
        """The answer, however long, while it is read. `timeout_s` is for each part of it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePlace:
    """A folder below the one that destinations may write to, and when a file there is full or old.
    With an age of 0 what is appended is a file of its own."""

    folder: str
    format: str
    max_bytes: int
    max_age_s: float


class Files(Protocol):
    async def append(self, place: FilePlace, lines: bytes) -> str:
        """The name of the file that these lines of JSON are in for good, or CannotSend. It has that
        name once it is complete."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePlace:
    """A table of somebody's PostgreSQL."""

    address: DatabaseAddress
    schema: str
    table: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Inserted:
    """The statement that was run, and how many rows are new. `refused` says why rows, by their
    number, can never be stored."""

    statement: str
    new: int
    refused: Mapping[int, str]


class Tables(Protocol):
    async def insert(self, place: TablePlace, events: Sequence[Event]) -> Inserted:
        """Each event in a row, those that are there already left alone; or CannotSend."""
        ...


class Aside(Protocol):
    """Does what takes a while beside the event loop."""

    async def __call__(self, work: Callable[[], T], /) -> T: ...


class _Nothing:
    """No files and no tables, for whoever needs none."""

    async def append(self, place: FilePlace, lines: bytes) -> str:
        raise CannotSend("There are no files here.")

    async def insert(self, place: TablePlace, events: Sequence[Event]) -> Inserted:
        raise CannotSend("There are no tables here.")


NOTHING = _Nothing()


async def at_once(work: Callable[[], T], /) -> T:
    return work()


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What else a component may use: the guarded ways out, and what time it is."""

    http: Outbound
    now: datetime
    files: Files = NOTHING
    tables: Tables = NOTHING
    aside: Aside = at_once


@dataclass(frozen=True, slots=True, kw_only=True)
class WaysOut:
    """All there are; how many use them at once is theirs to bound."""

    http: Outbound
    files: Files = NOTHING
    tables: Tables = NOTHING
    aside: Aside = at_once

    def at(self, now: datetime) -> Surroundings:
        return Surroundings(
            http=self.http, files=self.files, tables=self.tables, aside=self.aside, now=now
        )


Deliver = Callable[[Sequence[Event], Mapping[str, Any], Surroundings], Awaitable[Sequence[Outcome]]]
