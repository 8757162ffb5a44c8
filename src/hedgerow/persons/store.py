"""What this room needs of storage. storage/persons.py, cohorts.py, mirror_queue.py and
person_mirror.py answer."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from hedgerow.persons.mirrored import Copy, Finished, Taken
from hedgerow.persons.model import Cohort, CohortId, Group, Person
from hedgerow.projects.activity import Entry
from hedgerow.projects.model import ProjectId


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonQuery:
    project_id: ProjectId
    distinct_id: str = ""
    email: str = ""
    # Some text of a distinct id, an email or a name.
    search: str = ""
    # A static cohort.
    cohort_id: CohortId | None = None
    limit: int = 100
    offset: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Walked:
    """As much of a person as flags ask for."""

    id: int
    distinct_id: str
    properties: Mapping[str, Any]
    cohorts: frozenset[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """What becomes of a person some of whose distinct ids become persons of their own."""

    properties: Mapping[str, Any]
    others: Sequence[str]
    entry: Entry


# What the audit trail is told of somebody before and after, if anything.
Tell = Callable[[Person | None, Person], Entry | None]


class PersonStore(Protocol):
    async def persons(self, query: PersonQuery) -> tuple[list[Person], int]: ...

    async def newest_of(self, ids: Collection[int]) -> list[Person]:
        """The persons of these ids, newest first."""
        ...

    async def person(self, project_id: ProjectId, uuid: str) -> Person | None: ...

    async def put_person(
        self,
        project_id: ProjectId,
        distinct_ids: Sequence[str],
        change: Callable[[Person | None], Mapping[str, Any]],
        tell: Tell,
        now: datetime,
    ) -> Person:
        """Make or change the person of these ids; `change` gives the properties after it. Ids that
        belong to nobody become theirs. Conflict when they belong to several persons."""
        ...

    async def change_person(
        self,
        project_id: ProjectId,
        uuid: str,
        more_ids: Sequence[str],
        change: Callable[[Person], Mapping[str, Any]],
        tell: Tell,
        now: datetime,
    ) -> Person | None:
        """The same for a person who is there; None if they are not. Conflict when one of the ids
        belongs to somebody else."""
        ...

    async def some(self, query: PersonQuery, *, after: int, limit: int) -> list[Walked]:
        """The next persons of a query after one of this id, for walking over all."""
        ...

    async def split_person(
        self, project_id: ProjectId, uuid: str, decide: Callable[[Person], Split], now: datetime
    ) -> Person | None:
        """Let other distinct ids of a person be persons with the ids that events would give them;
        None if there is no such person."""
        ...

    async def delete_person(
        self, project_id: ProjectId, uuid: str, tell: Callable[[Person], Entry], now: datetime
    ) -> bool: ...

    async def groups(
        self, project_id: ProjectId, type_index: int, *, limit: int, offset: int
    ) -> tuple[list[Group], int]: ...

    async def some_groups(
        self, project_id: ProjectId, type_index: int, *, after: str, limit: int
    ) -> list[Group]:
        """The next groups after one of this key, for walking over all."""
        ...

    async def put_group(
        self,
        project_id: ProjectId,
        type_index: int,
        key: str,
        properties: Mapping[str, Any],
        now: datetime,
    ) -> Group:
        """Make a group, or lay these properties over those it has."""
        ...

    async def group_types(self, project_id: ProjectId) -> Mapping[str, int]: ...

    async def put_group_type(self, project_id: ProjectId, name: str, most: int) -> int | None:
        """The index of a group type, which it keeps; None when all are taken."""
        ...


# The flags that ask for a cohort, by key.
Askers = Callable[[CohortId], Sequence[str]]


class CohortStore(Protocol):
    async def cohorts(
        self, project_id: ProjectId, *, limit: int, offset: int
    ) -> tuple[list[Cohort], int]: ...

    async def cohort(self, project_id: ProjectId, id: CohortId) -> Cohort | None: ...

    async def write_cohort(
        self,
        project_id: ProjectId,
        decide: Callable[[Mapping[CohortId, Cohort], Askers], Cohort],
        tell: Callable[[Cohort | None, Cohort], Entry],
        now: datetime,
    ) -> Cohort:
        """Store what `decide` makes of the present cohorts, while nobody else changes the
        project's cohorts and flags."""
        ...

    async def add_members(
        self, project_id: ProjectId, id: CohortId, distinct_ids: Sequence[str]
    ) -> int:
        """Add the persons of these ids to a static cohort; how many it has then."""
        ...

    async def members(self, ids: Sequence[CohortId]) -> Mapping[CohortId, int]:
        """How many persons each static cohort has."""
        ...


class MirrorQueue(Protocol):
    """What has changed and is not copied yet. Numbers grow: of two changes of one thing the later
    has the greater."""

    async def newest(self) -> int | None:
        """The number of the last change that waits; None if nothing does."""
        ...

    async def oldest(self) -> int | None: ...

    async def length(self) -> int:
        """About how many changes wait, not fewer."""
        ...

    async def take(self, *, after: int, limit: int, max_size: int) -> Taken:
        """The next changes, and what they are about as it is now. They stay in the queue."""
        ...

    async def done(self, ids: Sequence[int]) -> None:
        """These are copied."""
        ...

    async def walk_on(self, limit: int) -> Finished | None:
        """Queue some more of what is to be copied whether it has changed or not. Finished when all
        of a kind is."""
        ...

    async def begin_again(self, newest_copy: int) -> None:
        """Have everything copied, unless the newest copy is one of ours and there is one."""
        ...


class MirrorTables(Protocol):
    """The copies, beside the events."""

    @property
    def is_open(self) -> bool:
        """Whether using them costs little."""
        ...

    async def append(self, copies: Sequence[Copy]) -> None:
        """Durable when this returns."""
        ...

    async def newest_version(self) -> int:
        """Zero if there is no copy of anything."""
        ...

    async def forget_older(self, kind: type[Copy], version: int) -> None: ...
