"""Storage interfaces of this package, and the values that they exchange."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, Protocol

import msgspec

from hedgerow.events.model import Event, EventKey
from hedgerow.ingestion.cookieless.visits import Visit
from hedgerow.ingestion.model import (
    CapturedEvent,
    InboxRow,
    IngestionWarning,
    PackedRow,
    ProcessedRow,
)
from hedgerow.ingestion.persons.changes import PersonChanges
from hedgerow.ingestion.persons.loaded_state import LoadedState
from hedgerow.persons.behaviors.store import NewOccurrences
from hedgerow.pipelines.deliveries.model import NewDeliveries
from hedgerow.pipelines.transformations.chain import TransformationCounts
from hedgerow.projects.activity import ActivityEntry
from hedgerow.projects.model import ProjectId

# A transaction processes this many events; other writers wait for it.
PROCESS_BATCH_EVENTS = 500
# The same while many events wait: a large transaction costs less for each event.
BACKLOG_BATCH_EVENTS = 2_000
STORE_BATCH_EVENTS = 5000
# A batch is held in memory, so its size is limited as well.
PROCESS_BATCH_BYTES = 2 << 20
STORE_BATCH_BYTES = 4 << 20
# Of stored events, whose deliveries are created in one transaction.
FAN_OUT_EVENTS = 1000
FAN_OUT_BYTES = 1 << 20

MAX_ROW_ID = 2**63 - 1
# Stands for the projects of events whose row does not name them: rows of earlier versions hold
# events of several projects, and the stream does not count its events by project.
UNKNOWN_PROJECT = ProjectId(0)

# The step in which an event became a dead letter.
Stage = Literal["process", "store"]


class RejectedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A captured event that becomes a dead letter, and the reason."""

    event: CapturedEvent
    reason: str


class ProcessingResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of processing captured events of one project. `flag_calls` counts flag calls by
    flag key and value."""

    events: Sequence[Event]
    changes: PersonChanges
    warnings: Sequence[IngestionWarning]
    flag_calls: Mapping[tuple[str, str], int]
    transformation_counts: Sequence[TransformationCounts] = ()
    rejected: Sequence[RejectedEvent] = ()
    occurrences: NewOccurrences = {}


class InboxBacklog(msgspec.Struct, frozen=True, kw_only=True):
    """How many events of each project are unprocessed, and how many are processed but not
    stored."""

    unprocessed: Mapping[ProjectId, int] = {}
    unstored: Mapping[ProjectId, int] = {}

    @property
    def total_unprocessed(self) -> int:
        return sum(self.unprocessed.values())

    @property
    def total_unstored(self) -> int:
        return sum(self.unstored.values())


class InboxPositions(msgspec.Struct, frozen=True, kw_only=True):
    """The ids of the first and last rows that are unprocessed, and of those that are processed but
    not stored. Ids increase in the order in which rows are added."""

    first_unprocessed: int = MAX_ROW_ID
    last_unprocessed: int = 0
    first_unstored: int = MAX_ROW_ID
    last_unstored: int = 0

    @property
    def is_empty(self) -> bool:
        return not self.last_unprocessed and not self.last_unstored


class InboxWork(msgspec.Struct, frozen=True, kw_only=True):
    """The first row of each bucket with unprocessed events, and whether any bucket has processed
    ones."""

    unprocessed: Mapping[int, int]
    has_unstored: bool


class PendingQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Whether inbox rows up to `last` change a person, under any of its distinct ids, or what the
    keys stand for."""

    project_id: ProjectId
    distinct_id: str
    keys: Sequence[int]
    last: int


ProcessRows = Callable[[ProjectId, Sequence[CapturedEvent], LoadedState], ProcessingResult]


class InboxStore(Protocol):
    @property
    def bucket_count(self) -> int:
        """The number of buckets. All events of a distinct id are in the same one."""
        ...

    async def add(
        self,
        project_id: ProjectId,
        events: Sequence[CapturedEvent],
        warnings: Sequence[IngestionWarning],
        now: datetime,
    ) -> None:
        """Add events and warnings. They are durable when this returns."""
        ...

    async def add_packed(
        self,
        project_id: ProjectId,
        rows: Sequence[PackedRow],
        warnings: Sequence[IngestionWarning],
        now: datetime,
    ) -> None:
        """The same for encoded events."""
        ...

    async def find_work(self) -> InboxWork:
        """Look for events of all processes. Only if there are several buckets."""
        ...

    async def unstored_buckets(self) -> Sequence[int]:
        """Return the buckets that hold processed events which this worker stores."""
        ...

    def is_assigned(self, bucket: int) -> bool:
        """Return whether this is one of the buckets, or one of the projects, that are this worker's
        share."""
        ...

    async def fetch_unprocessed(
        self, bucket: int, max_events: int = PROCESS_BATCH_EVENTS
    ) -> Sequence[InboxRow]:
        """Return unprocessed rows of a bucket: the first ones, or the first ones of several
        projects if more wait. The rows of a project are in their order."""
        ...

    async def process(
        self, bucket: int, rows: Sequence[InboxRow], process: ProcessRows, now: datetime
    ) -> bool:
        """Call `process` for each project, save the results and remove the rows, in one
        transaction. Returns False, without any effect, if another worker holds the bucket."""
        ...

    async def fetch_processed(self, bucket: int) -> Sequence[ProcessedRow]:
        """Return the first processed rows of a bucket, by project in their order. Empty while
        another worker holds the bucket."""
        ...

    def is_held(self, bucket: int) -> bool:
        """Return whether this worker may store rows of the bucket at this moment."""
        ...

    async def mark_stored(
        self,
        rows: Sequence[ProcessedRow],
        new: NewDeliveries,
        now: datetime,
        unrouted: Sequence[ProcessedRow] = (),
    ) -> None:
        """Remove the rows and create their deliveries, in one transaction. `new` holds the
        deliveries by the ids of the rows, `unrouted` the events whose deliveries are not known
        yet."""
        ...

    async def list_unrouted_projects(self) -> set[ProjectId]:
        """Return the projects with stored events whose deliveries are not known yet."""
        ...

    async def count_unrouted(self) -> Mapping[ProjectId, int]:
        """Return the number of these events of each project."""
        ...

    async def fetch_unrouted(self, project_id: ProjectId) -> Sequence[ProcessedRow]:
        """Return the first rows of a project with such events."""
        ...

    async def mark_routed(
        self, rows: Sequence[ProcessedRow], new: NewDeliveries, now: datetime
    ) -> None:
        """Remove these rows, but not the rest of each, and create their deliveries."""
        ...

    async def dead_letter_unprocessed(
        self, bucket: int, row: InboxRow, reason: str, now: datetime
    ) -> bool:
        """Move events that cannot be processed to the dead letters, in one transaction. Returns
        False as `process` does."""
        ...

    async def dead_letter_processed(
        self, bucket: int, row: ProcessedRow, reason: str, now: datetime
    ) -> None:
        """Move events that cannot be stored to the dead letters, in one transaction."""
        ...

    async def renew_leases(self) -> None:
        """Extend the leases of this worker."""
        ...

    async def release_leases(self) -> None:
        """Release the leases of this worker."""
        ...

    async def list_pending_keys(self) -> Sequence[EventKey]:
        """Return the keys of all processed events that are not stored."""
        ...

    async def list_unprocessed_names(self) -> Mapping[ProjectId, Mapping[str, int]]:
        """Return what the unprocessed events of each project change (`changed_names.py`), and the
        number of the last event of each, from 1 for its first one. Only if there is one bucket."""
        ...

    async def count_backlog(self) -> InboxBacklog: ...

    @property
    def has_stream(self) -> bool:
        """Whether unprocessed events are outside the database, so that a query there does not see
        them."""
        ...

    async def find_accepted(self, query: PendingQuery, timeout_s: float) -> int:
        """Return the last row that any process has accepted by now, if there are unprocessed events
        that the query asks for; 0 otherwise. `query.last` is not used. Only with a stream. Raises
        Unavailable."""
        ...

    async def has_unprocessed(self) -> bool:
        """Return whether the stream has unprocessed events. Only with a stream."""
        ...

    async def close(self) -> None: ...

    async def find_unprocessed(self, queries: Sequence[PendingQuery]) -> Sequence[Sequence[int]]:
        """Return, for each query, the buckets with unprocessed events that it asks for. Only if
        there are several buckets."""
        ...

    async def fetch_positions(self, project_id: ProjectId | None = None) -> InboxPositions:
        """Return the positions of a project, or of all."""
        ...

    async def fetch_state(self) -> str | None:
        """Return a value that changes with each change of the database by any process, None while
        the inbox is not empty. Only if there are several buckets."""
        ...

    async def announce_reader(self) -> None:
        """Tell the workers of all processes that a reader waits for events to be stored."""
        ...

    async def fetch_reader_announcement(self) -> int:
        """Return a number that increases with every announcement."""
        ...

    async def oldest_accepted_at(self) -> datetime | None:
        """Return when the oldest unstored event was accepted, None if there is none."""
        ...

    async def count_dead_letters(self) -> int:
        """Return the number of events in the dead letters."""
        ...


class CookielessStore(Protocol):
    async def get_salt(self, day: str, new_salt: bytes) -> bytes:
        """Return the salt of a day. Stores `new_salt` if there is none."""
        ...

    async def apply_visits(
        self, project_id: ProjectId, visits: Sequence[Visit]
    ) -> Sequence[tuple[int, str]]:
        """Apply visits to the stored states, as `visits.apply_visits` does."""
        ...

    async def delete_days(self, last: str) -> None:
        """Delete the salts and visitors of days up to this one."""
        ...


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """Events that could not be processed or stored, and the reason. `uuid` is empty if the row
    cannot be decoded."""

    id: int
    stage: Stage
    project_id: ProjectId | None
    uuid: str
    event: str
    distinct_id: str
    number: int
    reason: str
    dead_lettered_at: datetime


class DeadLetterQuery(msgspec.Struct, frozen=True, kw_only=True):
    project_id: ProjectId
    search: str
    limit: int
    offset: int


class DeadLetterChoice(msgspec.Struct, frozen=True, kw_only=True):
    """Dead letters of a project to retry or discard: one, or those up to an id; None means any."""

    project_id: ProjectId
    id: int | None = None
    until: int | None = None


class HandledEvents(msgspec.Struct, frozen=True, kw_only=True):
    """The number of events that were retried or discarded, and of dead letters that are left."""

    events: int
    left: int


class ProjectDeadLetterStore(Protocol):
    async def list_of_project(self, query: DeadLetterQuery) -> tuple[list[DeadLetter], int]:
        """Return one page, newest first, and the total number."""
        ...

    async def find(self, project_id: ProjectId, id: int) -> tuple[DeadLetter, Any] | None:
        """Return a dead letter and its events as JSON values, or its bytes if they are damaged."""
        ...

    async def retry_of_project(
        self, choice: DeadLetterChoice, limit: int, entry: ActivityEntry, now: datetime
    ) -> HandledEvents:
        """Process the oldest dead letters of a choice again. Records the entry if there are any."""
        ...

    async def discard_of_project(
        self, choice: DeadLetterChoice, limit: int, entry: ActivityEntry, now: datetime
    ) -> HandledEvents:
        """Delete the oldest dead letters of a choice. Records the entry if there are any."""
        ...


class WarningQuery(msgspec.Struct, frozen=True, kw_only=True):
    project_id: ProjectId
    type: str
    search: str = ""
    limit: int
    offset: int


class WarningStore(Protocol):
    async def list_warnings(self, query: WarningQuery) -> tuple[list[IngestionWarning], int]:
        """Return one page, newest first, and the total number."""
        ...
