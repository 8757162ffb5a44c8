"""What this room needs of storage. storage/pipelines.py, jobs.py and components.py answer."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from hedgerow.pipelines.component import Component
from hedgerow.pipelines.deliveries import (
    Ages,
    Delivery,
    DeliveryStatus,
    Hour,
    LogLevel,
    Report,
    ToldDelivery,
    ToldLine,
)
from hedgerow.pipelines.model import (
    ComponentId,
    Family,
    Job,
    JobId,
    JobStatus,
    Record,
    RecordDraft,
    RecordId,
)
from hedgerow.pipelines.retry import Health
from hedgerow.projects.activity import Entry
from hedgerow.projects.model import ProjectId


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordQuery:
    """Which records to list; None means any. Deleted ones are never listed."""

    project_id: ProjectId
    family: Family
    enabled: bool | None = None
    component_id: ComponentId | None = None
    search: str = ""
    # Components whose own words match, for records without a name or description of their own.
    named_alike: Sequence[ComponentId] = ()
    described_alike: Sequence[ComponentId] = ()
    limit: int = 100
    offset: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One record's address: ids of other projects and families lead nowhere."""

    project_id: ProjectId
    family: Family
    id: RecordId


@dataclass(frozen=True, slots=True, kw_only=True)
class Edited:
    """A record after a change, with what the audit trail shall say; None says nothing."""

    record: Record
    entry: Entry | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Records to make and to change together; every order is given, and the ids of new ones are
    not."""

    added: Sequence[Record]
    edited: Sequence[Edited]


# The entry for a record that was made (no record before) or moved.
Tell = Callable[[Record | None, Record], Entry]


class RecordStore(Protocol):
    async def records(self, query: RecordQuery) -> tuple[list[Record], int]:
        """One page by order and id, and how many there are in all."""
        ...

    async def all_records(self, project_id: ProjectId) -> list[Record]:
        """Every family's, by order and id."""
        ...

    async def generation(self, project_id: ProjectId) -> int:
        """A number that moves with every change of the project's records."""
        ...

    async def record(self, place: Place) -> Record | None:
        """Also a deleted one."""
        ...

    async def add(
        self,
        draft: RecordDraft,
        tell: Tell,
        idempotency_key: str | None,
        now: datetime,
    ) -> Record:
        """The new record; or, for an idempotency key that was used before, the one made then."""
        ...

    async def edit(
        self, place: Place, edit: Callable[[Record], Edited], tell: Tell, now: datetime
    ) -> Record:
        """Change one record, alone with its family; `tell` is for others that must make room."""
        ...

    async def rearrange(
        self,
        project_id: ProjectId,
        family: Family,
        plan: Callable[[Mapping[RecordId, int]], Mapping[RecordId, int]],
        tell: Tell,
        now: datetime,
    ) -> list[Record]:
        """Move records to the places that `plan` makes of the present ones. All, in order."""
        ...

    async def write_all(
        self,
        project_id: ProjectId,
        decide: Callable[[Sequence[Record]], Batch],
        created: Callable[[Record], Entry],
        now: datetime,
    ) -> None:
        """Make and change what `decide` makes of all present records: everything or nothing."""
        ...


class ServedRecords(Protocol):
    async def served(self, id: RecordId, web_token: str) -> Record | None:
        """An enabled record by the token of its public script."""
        ...

    async def served_apps(self, project_ids: Sequence[ProjectId]) -> list[Record]:
        """The enabled frontend apps of these projects, by order and id."""
        ...

    async def generations(self) -> Mapping[ProjectId, int]:
        """For each project, a number that moves with every change of its records."""
        ...


class DestinationStore(Protocol):
    async def destinations(self, project_ids: Sequence[ProjectId]) -> list[Record]:
        """Those of these projects that are not deleted, enabled or not."""
        ...

    async def generations(self) -> Mapping[ProjectId, int]:
        """For each project, a number that moves with every change of its records."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownGroups:
    """Some of a project's groups: the indexes of types, and properties, as JSON text, by type and
    key."""

    types: Mapping[str, int]
    properties: Mapping[tuple[str, str], str]


class GroupStore(Protocol):
    async def groups(self, project_id: ProjectId, keys: Sequence[str]) -> KnownGroups:
        """All types, and the groups with these keys."""
        ...


class TransformationStore(Protocol):
    async def transformations(self, project_ids: Sequence[ProjectId]) -> list[Record]:
        """The enabled ones of these projects, by order and id."""
        ...

    async def generations_of(self, project_ids: Collection[ProjectId]) -> Mapping[ProjectId, int]:
        """For each of these projects, a number that moves with every change of its records."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformedHour:
    """What a transformation did in an hour."""

    hour_ms: int
    changed: int
    dropped: int
    failed: int


class TransformationReading(Protocol):
    async def hours(self, record_id: RecordId, since_ms: int) -> list[TransformedHour]:
        """What was counted in hours that began after a moment, oldest first."""
        ...


class StandingStore(Protocol):
    async def errors(self) -> Mapping[RecordId, str]:
        """What is wrong with records, for those with which something is."""
        ...

    async def counts_since(self, since_ms: int) -> Mapping[RecordId, tuple[int, int]]:
        """How many deliveries have arrived and how many have died, for those with some."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """What there is of a destination's deliveries. `oldest_ms` says since when the oldest waits
    that is not dead; 0 where there is none."""

    project_id: ProjectId
    waiting: int = 0
    retrying: int = 0
    dead: int = 0
    oldest_ms: int = 0


class BacklogStore(Protocol):
    async def backlogs(self) -> Mapping[RecordId, Backlog]:
        """Of those destinations that have any."""
        ...


class DeliveryReading(Protocol):
    """What people are shown of a record's deliveries."""

    async def deliveries(
        self, record_id: RecordId, status: DeliveryStatus | None, *, limit: int, offset: int
    ) -> tuple[list[ToldDelivery], int]:
        """One page, the newest first, and how many there are in all."""
        ...

    async def send_again(
        self, record_id: RecordId, id: int, entry: Entry, now: datetime
    ) -> ToldDelivery | None:
        """To be sent at once, also if it was dead; None when there is none."""
        ...

    async def logs(
        self, record_id: RecordId, level: LogLevel | None, search: str, *, limit: int, offset: int
    ) -> tuple[list[ToldLine], int]:
        """One page, the newest first, and how many there are in all."""
        ...

    async def hours(self, record_id: RecordId, since_ms: int) -> list[Hour]:
        """What was counted in hours that began after a moment, oldest first."""
        ...


class DeliveryStore(Protocol):
    """The queue of each destination. One process at a time works on one."""

    async def has_due(self, record_id: RecordId, now_ms: int) -> bool: ...

    async def take(self, record_id: RecordId) -> bool:
        """Whether the queue is ours now, for a while."""
        ...

    async def keep(self) -> None:
        """Keep the queues that are ours, for another while."""
        ...

    async def let_go(self) -> None: ...

    async def due(self, record_id: RecordId, limit: int, now_ms: int) -> Sequence[Delivery]:
        """Some that are to be sent: those tried before, then the others in their order."""
        ...

    async def due_in_order(
        self, record_id: RecordId, limit: int, now_ms: int
    ) -> Sequence[Delivery]:
        """The same, without those behind one of the same distinct id that waits for a retry."""
        ...

    async def health(self, record_id: RecordId) -> Health: ...

    async def report(self, report: Report, now: datetime) -> None:
        """What became of some deliveries, all of it in one transaction."""
        ...

    async def forget_old(self, ages: Ages, now: datetime) -> None:
        """Give up what has waited for too long, and forget what was dead for too long."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification:
    id: int
    body: str
    attempts: int
    created_ms: int


class NotificationStore(Protocol):
    async def claimed(self, now: datetime, until: datetime, limit: int) -> Sequence[Notification]:
        """Some that are due, which are nobody else's until a moment."""
        ...

    async def put_off(self, id: int, attempts: int, until: datetime) -> None: ...

    async def end(self, id: int) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSwitch:
    """From one of some statuses to another, because somebody said so."""

    activity: str
    before: Sequence[JobStatus]
    after: JobStatus


class JobStore(Protocol):
    async def add_job(self, project_id: ProjectId, job: Job, entry: Entry) -> None: ...
    async def jobs(
        self, record_id: RecordId, *, limit: int, offset: int
    ) -> tuple[list[Job], int]: ...
    async def job(self, record_id: RecordId, id: JobId) -> Job | None: ...
    async def switch_job(
        self, record_id: RecordId, id: JobId, switch: JobSwitch, entry: Entry, now: datetime
    ) -> Job | None:
        """Nobody's after it, or as it is when it had none of the statuses before; None when there
        is none."""
        ...


class ComponentStore(Protocol):
    async def component_ids(
        self, components: Iterable[Component], now: datetime
    ) -> Mapping[str, ComponentId]:
        """The number of each component, given the first time it is seen and kept for ever."""
        ...
