"""Storage interfaces of this package."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from hedgerow.persons.model import Cohort, CohortId, Group, Person, PersonId
from hedgerow.persons.replicas import BackfillFinished, QueuedChanges, Replica
from hedgerow.projects.activity import ActivityEntry
from hedgerow.projects.model import ProjectId


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonQuery:
    project_id: ProjectId
    distinct_id: str = ""
    email: str = ""
    # Part of a distinct id, an email or a name.
    search: str = ""
    # A static cohort.
    cohort_id: CohortId | None = None
    limit: int = 100
    offset: int = 0
    # Only the persons before or after this one in the list, which begins with the newest.
    older_than: PersonId | None = None
    newer_than: PersonId | None = None
    # The number of persons on all pages, if it is known: then they are not counted.
    count: int | None = None

    @property
    def needs_scan(self) -> bool:
        """Whether the properties of all persons have to be read. No index has them."""
        return bool(self.email or self.search)


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonSplit:
    """The remaining properties of a person, and the distinct ids that become new persons."""

    properties: Mapping[str, Any]
    others: Sequence[str]
    entry: ActivityEntry


# Builds the activity entry from the person before and after, None if nothing changed.
BuildPersonEntry = Callable[[Person | None, Person], ActivityEntry | None]


class PersonStore(Protocol):
    async def persons(self, query: PersonQuery) -> tuple[list[Person], int]:
        """Return a page of persons, newest first, and the number of persons on all pages. For
        queries that need no scan."""
        ...

    async def get_newest_first(self, ids: Collection[int]) -> list[Person]:
        """Return the persons with these ids, newest first."""
        ...

    async def person(self, project_id: ProjectId, uuid: str) -> Person | None: ...

    async def upsert_person(
        self,
        project_id: ProjectId,
        distinct_ids: Sequence[str],
        change: Callable[[Person | None], Mapping[str, Any]],
        build_entry: BuildPersonEntry,
        now: datetime,
    ) -> Person:
        """Create or change the person of these ids. `change` returns the new properties. Unused ids
        are added to the person. Raises Conflict if the ids belong to several persons."""
        ...

    async def update_person(
        self,
        project_id: ProjectId,
        uuid: str,
        more_ids: Sequence[str],
        change: Callable[[Person], Mapping[str, Any]],
        build_entry: BuildPersonEntry,
        now: datetime,
    ) -> Person | None:
        """Change an existing person; None if there is none. Raises Conflict if one of the ids
        belongs to another person."""
        ...

    async def split_person(
        self,
        project_id: ProjectId,
        uuid: str,
        decide: Callable[[Person], PersonSplit],
        now: datetime,
    ) -> Person | None:
        """Make other distinct ids of a person new persons, with the uuids that their events would
        create. None if the person does not exist."""
        ...

    async def delete_person(
        self,
        project_id: ProjectId,
        uuid: str,
        build_entry: Callable[[Person], ActivityEntry],
        now: datetime,
    ) -> bool: ...

    async def groups(
        self,
        project_id: ProjectId,
        type_index: int,
        *,
        limit: int,
        offset: int,
        search: str = "",
    ) -> tuple[list[Group], int]:
        """Return the groups of a type with this text in their key or name, by key."""
        ...

    async def group(self, project_id: ProjectId, type_index: int, key: str) -> Group | None: ...

    async def upsert_group(
        self,
        project_id: ProjectId,
        type_index: int,
        key: str,
        properties: Mapping[str, Any],
        now: datetime,
    ) -> Group:
        """Create a group, or set these properties on an existing one."""
        ...

    async def group_types(self, project_id: ProjectId) -> Mapping[str, int]: ...

    async def upsert_group_type(self, project_id: ProjectId, name: str, limit: int) -> int | None:
        """Return the permanent index of a group type; None if all indexes are used."""
        ...


# Returns the keys of the flags that use a cohort.
FlagsUsingCohort = Callable[[CohortId], Sequence[str]]


class CohortStore(Protocol):
    async def cohorts(
        self, project_id: ProjectId, *, limit: int, offset: int, search: str = ""
    ) -> tuple[list[Cohort], int]:
        """Return the cohorts with this text in their name or description, newest first."""
        ...

    async def cohort(self, project_id: ProjectId, id: CohortId) -> Cohort | None: ...

    async def write_cohort(
        self,
        project_id: ProjectId,
        decide: Callable[[Mapping[CohortId, Cohort], FlagsUsingCohort], Cohort],
        build_entry: Callable[[Cohort | None, Cohort], ActivityEntry],
        now: datetime,
    ) -> Cohort:
        """Store the result of `decide`, which gets the present cohorts. No other process can change
        the cohorts and flags of the project in between."""
        ...

    async def add_members(
        self, project_id: ProjectId, id: CohortId, distinct_ids: Sequence[str]
    ) -> int:
        """Add the persons of these ids to a static cohort. Returns its new size."""
        ...

    async def count_members(self, ids: Sequence[CohortId]) -> Mapping[CohortId, int]:
        """Return the number of persons of each static cohort."""
        ...


class ReplicationQueue(Protocol):
    """Changes that are not replicated yet. Of two changes of the same row, the later one has the
    greater number."""

    async def newest(self) -> int | None:
        """Return the number of the newest queued change, None if the queue is empty."""
        ...

    async def oldest(self) -> int | None: ...

    async def estimate_length(self) -> int:
        """Return an upper estimate of the number of queued changes."""
        ...

    async def read_changes(self, *, after: int, limit: int, max_size: int) -> QueuedChanges:
        """Return the next changes with the current state of their rows. They stay in the queue."""
        ...

    async def remove(self, ids: Sequence[int]) -> None:
        """Remove replicated changes."""
        ...

    async def backfill_step(self, limit: int) -> BackfillFinished | None:
        """Queue the next rows to be replicated whether they have changed or not. Returns the kind
        that is finished, if any."""
        ...

    async def restart_backfill(self, newest_replica: int) -> None:
        """Start a backfill of everything, unless the newest replica is one of this database."""
        ...


class ReplicaTables(Protocol):
    """The tables with the replicas, in the event store."""

    @property
    def is_open(self) -> bool:
        """Whether the event store is open, so that using the tables is cheap."""
        ...

    async def append(self, replicas: Sequence[Replica]) -> None:
        """Write replicas. They are durable when this returns."""
        ...

    async def newest_version(self) -> int:
        """Return 0 if there are no replicas."""
        ...

    async def delete_older(self, kind: type[Replica], version: int) -> None: ...
