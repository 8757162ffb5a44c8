"""What this room needs of storage. storage/inbox.py, storage/set_aside.py and
storage/ingestion_warnings.py answer.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Literal, Protocol

import msgspec

from hedgerow.events.model import Event, EventKey
from hedgerow.ingestion.model import Accepted, Arrived, IngestionWarning
from hedgerow.persons.changes import Changes
from hedgerow.persons.known import Known
from hedgerow.pipelines.deliveries import NewDeliveries
from hedgerow.pipelines.transform import Tally
from hedgerow.projects.model import ProjectId

# So many events are settled in one transaction: others wait for as long as that takes.
SETTLED_AT_ONCE = 500
STORED_AT_ONCE = 5000
# And so many bytes, since all of them are in memory meanwhile.
SETTLED_BYTES = 8 << 20
STORED_BYTES = 32 << 20


# What somebody was about to do with events when they had to be set aside.
Stage = Literal["settle", "store"]


class Settled(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of accepted events of one project: rows for the event store, changes of persons
    and groups, and what there is to tell."""

    events: Sequence[Event]
    changes: Changes
    warnings: Sequence[IngestionWarning]
    # How often each flag was called, by its answer.
    flag_calls: Mapping[tuple[str, str], int]
    # What the project's transformations did to them.
    tallies: Sequence[Tally] = ()


class Ready(msgspec.Struct, frozen=True, kw_only=True):
    """Events with their persons that wait for the event store. `number` is how many accepted events
    they were made of. The rest is as with `Accepted`."""

    id: int
    events: Sequence[Event]
    number: int
    size: int = 0
    rest: Sequence[Event] = ()
    problem: str = ""


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """How much is on its way."""

    unsettled: int
    unstored: int


Decide = Callable[[ProjectId, Sequence[Arrived], Known], Settled]


class InboxStore(Protocol):
    async def add(
        self,
        project_id: ProjectId,
        events: Sequence[Arrived],
        warnings: Sequence[IngestionWarning],
        now: datetime,
    ) -> None:
        """Durable when this returns."""
        ...

    async def unsettled_buckets(self) -> Sequence[int]:
        """Those in which something waits to be settled."""
        ...

    async def unstored_buckets(self) -> Sequence[int]:
        """Those in which something is ready for the event store."""
        ...

    async def oldest(self, bucket: int) -> Sequence[Accepted]:
        """Some of the rows that wait in a bucket, in their order."""
        ...

    async def settle(
        self, bucket: int, rows: Sequence[Accepted], decide: Decide, now: datetime
    ) -> bool:
        """Let `decide` say what becomes of the rows, project by project, and store all of it in
        one transaction with the end of the rows. False if another process works on the bucket:
        then nothing happened."""
        ...

    async def ready(self, bucket: int) -> Sequence[Ready]:
        """Some of what is ready for the event store, in its order; nothing while another process
        works on the bucket."""
        ...

    async def stored(self, rows: Sequence[Ready], new: NewDeliveries, now: datetime) -> None:
        """The event store has them. Their deliveries, by the rows' ids, are made as they end."""
        ...

    async def set_aside_accepted(
        self, bucket: int, row: Accepted, reason: str, now: datetime
    ) -> bool:
        """Keep what cannot be settled where it is in nobody's way, in one transaction with its
        end in the inbox. False as with `settle`."""
        ...

    async def set_aside_ready(self, bucket: int, row: Ready, reason: str, now: datetime) -> None:
        """The same for what cannot be stored."""
        ...

    async def keep_leases(self) -> None:
        """Keep other processes from what this one is about to store, for another while."""
        ...

    async def let_go(self) -> None:
        """Leave the way to the event store to other processes."""
        ...

    async def on_the_way(self) -> Sequence[EventKey]:
        """All that is ready for the event store."""
        ...

    async def waiting(self) -> Waiting: ...

    async def waits_since(self) -> datetime | None:
        """When the oldest was accepted of all that is on its way."""
        ...

    async def number_set_aside(self) -> int:
        """How many events wait for somebody to decide about them."""
        ...


class SetAside(msgspec.Struct, frozen=True, kw_only=True):
    """What nobody could settle or store, and why. What cannot be read has no uuid."""

    id: int
    stage: Stage
    project_id: ProjectId | None
    uuid: str
    event: str
    distinct_id: str
    number: int
    reason: str
    set_aside_at: datetime


class SetAsideStore(Protocol):
    async def listed(self, limit: int) -> tuple[list[SetAside], int]:
        """The oldest, and how many events there are in all."""
        ...

    async def content(self, id: int) -> bytes | None:
        """As it was stored, None if there is no such."""
        ...

    async def retry(self, ids: Sequence[int] | None, now: datetime) -> int:
        """Send these, or all, on their way again, behind what waits there. How many events."""
        ...

    async def discard(self, ids: Sequence[int] | None) -> int:
        """Delete these, or all, for good. How many events they were."""
        ...


class WarningQuery(msgspec.Struct, frozen=True, kw_only=True):
    project_id: ProjectId
    type: str
    limit: int
    offset: int


class WarningTold(msgspec.Struct, frozen=True, kw_only=True):
    """A warning as it is kept."""

    id: int
    type: str
    detail: str
    event: str
    uuid: str
    distinct_id: str
    created_at: datetime


class WarningStore(Protocol):
    async def warnings(self, query: WarningQuery) -> tuple[list[WarningTold], int]:
        """One page, newest first, and how many there are in all."""
        ...
