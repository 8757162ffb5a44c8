"""What this room needs of storage. storage/persons.py and cohorts.py answer."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

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
