"""The store interfaces of pipelines. storage/pipelines and storage/deliveries implement them."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from hedgerow.pipelines.deliveries.model import (
    Delivery,
    DeliveryHour,
    DeliveryReport,
    DeliveryStatus,
    DeliveryView,
    LogLevel,
    RetentionPeriods,
    StoredLogLine,
)
from hedgerow.pipelines.deliveries.retry import PauseState
from hedgerow.pipelines.model import (
    ComponentId,
    Job,
    JobId,
    JobStatus,
    Record,
    RecordDraft,
    RecordId,
)
from hedgerow.plugin.component import Component, Family
from hedgerow.projects.activity import ActivityEntry
from hedgerow.projects.model import ProjectId


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordQuery:
    """Which records to list; None means any. Deleted records are never listed."""

    project_id: ProjectId
    family: Family
    enabled: bool | None = None
    component_id: ComponentId | None = None
    search: str = ""
    failing: bool | None = None
    # Components that match the search, for records without a name or description of their own.
    components_by_name: Sequence[ComponentId] = ()
    components_by_description: Sequence[ComponentId] = ()
    limit: int = 100
    offset: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordKey:
    """The key of a record. A record of another project or family is not found."""

    project_id: ProjectId
    family: Family
    id: RecordId


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordEdit:
    """A record after a change, and the entry for the activity log; None logs nothing."""

    record: Record
    entry: ActivityEntry | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordChanges:
    """Records to create and to edit in one transaction. All have an order; new ones have no id."""

    added: Sequence[Record]
    edited: Sequence[RecordEdit]


# Builds the activity entry of a record that was created (the first argument is None) or moved.
BuildEntry = Callable[[Record | None, Record], ActivityEntry]


class RecordStore(Protocol):
    async def records(self, query: RecordQuery) -> tuple[list[Record], int]:
        """Return one page by order and id, and the total count."""
        ...

    async def all_records(self, project_id: ProjectId) -> list[Record]:
        """Return the records of all families by order and id."""
        ...

    async def generation(self, project_id: ProjectId) -> int:
        """Return a number that changes with the project's records."""
        ...

    async def record(self, place: RecordKey) -> Record | None:
        """Return a record, even if it is deleted."""
        ...

    async def add(
        self,
        draft: RecordDraft,
        build_entry: BuildEntry,
        idempotency_key: str | None,
        now: datetime,
    ) -> Record:
        """Create a record, or return the one that was created with the same idempotency key."""
        ...

    async def edit(
        self,
        place: RecordKey,
        edit: Callable[[Record], RecordEdit],
        build_entry: BuildEntry,
        now: datetime,
    ) -> Record:
        """Edit one record with its family locked. `build_entry` is called for other records that
        must move."""
        ...

    async def rearrange(
        self,
        project_id: ProjectId,
        family: Family,
        plan: Callable[[Mapping[RecordId, int]], Mapping[RecordId, int]],
        build_entry: BuildEntry,
        now: datetime,
    ) -> list[Record]:
        """Set the orders that `plan` returns for the current ones. Returns all records in order."""
        ...

    async def write_all(
        self,
        project_id: ProjectId,
        decide: Callable[[Sequence[Record]], RecordChanges],
        created: Callable[[Record], ActivityEntry],
        now: datetime,
    ) -> None:
        """Apply the changes that `decide` returns for all current records, in one transaction."""
        ...


class PublicRecordStore(Protocol):
    async def public_record(self, id: RecordId, web_token: str) -> Record | None:
        """Return an enabled record by the token of its public script."""
        ...

    async def public_apps(self, project_ids: Sequence[ProjectId]) -> list[Record]:
        """Return the enabled frontend apps of these projects, by order and id."""
        ...

    async def generations(self) -> Mapping[ProjectId, int]:
        """Return a number for each project that changes with its records."""
        ...


class DestinationStore(Protocol):
    async def destinations(self, project_ids: Sequence[ProjectId]) -> list[Record]:
        """Return the destinations of these projects, enabled or not, except deleted ones."""
        ...

    async def generations(self) -> Mapping[ProjectId, int]:
        """Return a number for each project that changes with its records."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedGroups:
    """Groups of a project: the index of each type, and properties as JSON by type and key."""

    types: Mapping[str, int]
    properties: Mapping[tuple[str, str], str]


class GroupStore(Protocol):
    async def groups(self, project_id: ProjectId, keys: Sequence[str]) -> LoadedGroups:
        """Load all types, and the groups with these keys."""
        ...


class TransformationStore(Protocol):
    async def transformations(self, project_ids: Sequence[ProjectId]) -> list[Record]:
        """Return the enabled transformations of these projects, by order and id."""
        ...

    async def generations_of(self, project_ids: Collection[ProjectId]) -> Mapping[ProjectId, int]:
        """Return a number for each of these projects that changes with its records."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformationHour:
    """Counts of a transformation in one hour."""

    hour_ms: int
    changed: int
    dropped: int
    failed: int


class TransformationHistory(Protocol):
    async def hours(self, record_id: RecordId, since_ms: int) -> list[TransformationHour]:
        """Return the counts of the hours since a time, oldest first."""
        ...


class DestinationHealthStore(Protocol):
    async def errors(self) -> Mapping[RecordId, str]:
        """Return the current error of each record that has one."""
        ...

    async def counts_since(self, since_ms: int) -> Mapping[RecordId, tuple[int, int]]:
        """Return the numbers of delivered events and of new dead letters, by record."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """Counts of a destination's deliveries. `oldest_ms` is the creation time of the oldest one that
    is not a dead letter; 0 if there is none."""

    project_id: ProjectId
    waiting: int = 0
    retrying: int = 0
    dead: int = 0
    oldest_ms: int = 0


class BacklogStore(Protocol):
    async def backlogs(self) -> Mapping[RecordId, Backlog]:
        """Return the backlog of each destination that has deliveries."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryQuery:
    """Which deliveries of a record to list; no statuses mean any. `search` looks in the reason, the
    distinct id and the uuid; `error` is the whole reason."""

    record_id: RecordId
    statuses: Sequence[DeliveryStatus] = ()
    search: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryReason:
    error: str
    count: int
    newest_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordCounts:
    """What a record did since a time: deliveries of a destination, events of a transformation."""

    delivered: int = 0
    retried: int = 0
    dead: int = 0
    changed: int = 0
    dropped: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineHealth:
    """`paused_until_ms` is 0 if the record is not paused."""

    counts: RecordCounts
    paused_until_ms: int = 0
    last_job: Job | None = None


class PipelineHealthStore(Protocol):
    async def health(
        self, record_ids: Sequence[RecordId], since_ms: int
    ) -> Mapping[RecordId, PipelineHealth]:
        """Return the health of these records: counts since a time, and their newest job."""
        ...


class DeliveryHistory(Protocol):
    """Deliveries, logs and counts of a record, for the API."""

    async def deliveries(
        self, query: DeliveryQuery, *, limit: int, offset: int
    ) -> tuple[list[DeliveryView], int]:
        """Return one page, newest first, and the total count."""
        ...

    async def reasons(self, query: DeliveryQuery, limit: int) -> list[DeliveryReason]:
        """Count deliveries by the reason of their last failure, the most frequent first."""
        ...

    async def retry_now(
        self, record_id: RecordId, id: int, entry: ActivityEntry, now: datetime
    ) -> DeliveryView | None:
        """Make a delivery due now, even if it is a dead letter, and end a pause of the destination;
        None if it does not exist."""
        ...

    async def logs(
        self, record_id: RecordId, level: LogLevel | None, search: str, *, limit: int, offset: int
    ) -> tuple[list[StoredLogLine], int]:
        """Return one page, newest first, and the total count."""
        ...

    async def hours(self, record_id: RecordId, since_ms: int) -> list[DeliveryHour]:
        """Return the counts of the hours since a time, oldest first."""
        ...


# Reserves memory for an event of so many bytes. Returns False if there is none.
TakeBytes = Callable[[int], bool]


def take_all(_: int) -> bool:
    return True


class DeliveryStore(Protocol):
    """The delivery queue of each destination. A lease gives it to one process at a time."""

    async def find_due(self, record_ids: Sequence[RecordId], now_ms: int) -> set[RecordId]:
        """Return those of these destinations that have due deliveries and are not paused, with one
        query."""
        ...

    async def acquire(self, record_id: RecordId) -> bool:
        """Acquire the lease of a queue. False if another process holds it."""
        ...

    async def renew(self) -> None:
        """Renew all leases of this process."""
        ...

    async def release(self) -> None: ...

    async def due(
        self, record_id: RecordId, limit: int, now_ms: int, take: TakeBytes = take_all
    ) -> Sequence[Delivery]:
        """Return due deliveries: retries first, then new ones in order. Ends before the first one
        whose bytes `take` refuses."""
        ...

    async def due_in_order(
        self, record_id: RecordId, limit: int, now_ms: int, take: TakeBytes = take_all
    ) -> Sequence[Delivery]:
        """Return due deliveries, except those behind a waiting retry of the same distinct id."""
        ...

    async def pause_state(self, record_id: RecordId) -> PauseState: ...

    async def save_report(self, report: DeliveryReport, now: datetime) -> None:
        """Store the outcome of a round in one transaction."""
        ...

    async def delete_delivered(self) -> None:
        """Delete the events that no delivery needs since the last call."""
        ...

    async def find_newest_time(self) -> datetime:
        """Return when the newest log line was written, one for each failed round, or when a
        destination was last enabled or disabled, if that is later."""
        ...

    async def follow_set_back_clock(self, now: datetime) -> None:
        """Let no retry and no pause last longer than it may after its failures; a longer wait that
        a destination asked for is given up as well. Move the times in the future at which
        destinations were enabled or disabled into the past."""
        ...

    async def expire_old(self, ages: RetentionPeriods, now: datetime) -> None:
        """Turn deliveries that are too old into dead letters. Delete old dead letters, and all
        events that no delivery needs."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification:
    id: int
    body: str
    attempts: int
    created_ms: int


class NotificationStore(Protocol):
    async def claim(self, now: datetime, until: datetime, limit: int) -> Sequence[Notification]:
        """Claim due notifications for this process until a time."""
        ...

    async def postpone(self, id: int, attempts: int, until: datetime) -> None: ...

    async def remove(self, id: int) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTransition:
    """A change of a job's status by a user, from one of some statuses to another."""

    activity: str
    before: Sequence[JobStatus]
    after: JobStatus


class JobStore(Protocol):
    async def add_job(self, project_id: ProjectId, job: Job, entry: ActivityEntry) -> None: ...
    async def jobs(
        self, record_id: RecordId, *, limit: int, offset: int
    ) -> tuple[list[Job], int]: ...
    async def job(self, record_id: RecordId, id: JobId) -> Job | None: ...
    async def open_jobs(self, record_id: RecordId, type: str) -> list[Job]:
        """Return the jobs of this type that have not ended, newest first."""
        ...

    async def change_status(
        self,
        record_id: RecordId,
        id: JobId,
        switch: JobTransition,
        entry: ActivityEntry,
        now: datetime,
    ) -> Job | None:
        """Change the status and release the job's lease. A job with any other status stays as it
        is. None if the job does not exist."""
        ...


class ComponentStore(Protocol):
    async def component_ids(
        self, components: Iterable[Component], now: datetime
    ) -> Mapping[str, ComponentId]:
        """Return the permanent id of each component, and assign ids to new components."""
        ...
