"""What this room needs of storage. storage/flags.py and persons.py answer."""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

import msgspec

from hedgerow.flags.model import Definitions, Flag, FlagId
from hedgerow.projects.activity import Entry
from hedgerow.projects.model import ProjectId


@dataclass(frozen=True, slots=True, kw_only=True)
class FlagWrite:
    """A flag to store: a new one has no id yet. `tell` gives the entry for the audit trail."""

    flag: Flag
    tell: Callable[[Flag], Entry | None]


class FlagStore(Protocol):
    async def generation(self, project_id: ProjectId) -> int: ...

    async def generations(self) -> Mapping[ProjectId, int]:
        """Of every project that has flags."""
        ...

    async def definitions(self, project_id: ProjectId, timezone: str) -> Definitions:
        """Everything that is not deleted."""
        ...

    async def flag(self, project_id: ProjectId, id: FlagId) -> Flag | None:
        """Also a deleted one."""
        ...

    async def held(self, project_id: ProjectId) -> Mapping[FlagId, str]:
        """Why flags cannot be deleted, for those that something else cannot do without."""
        ...

    async def call_counts(self, project_id: ProjectId, flag_key: str) -> Mapping[str, int]:
        """How often apps said that they asked for a flag, by what it answered."""
        ...

    async def write(
        self,
        project_id: ProjectId,
        decide: Callable[[Definitions, Callable[[FlagId], Flag | None]], FlagWrite],
        now: datetime,
    ) -> Flag:
        """Store what `decide` makes of the present definitions, alone with the project."""
        ...

    async def write_all(
        self,
        project_id: ProjectId,
        work: Callable[[Definitions, Callable[[FlagWrite], Flag]], None],
        now: datetime,
    ) -> None:
        """Let `work` store several flags, alone with the project: all of them or none. What it
        hands over comes back with its id, so that the next flag can name it."""
        ...


class StoredSubject(msgspec.Struct, frozen=True, kw_only=True):
    """What is stored about somebody; nothing of it for a stranger."""

    person_id: int | None
    properties: Mapping[str, Any]
    cohorts: frozenset[int]
    hash_keys: Mapping[str, str]
    groups: Mapping[int, Mapping[str, Any]]


class SubjectStore(Protocol):
    def subject(
        self,
        project_id: ProjectId,
        distinct_id: str,
        groups: Mapping[int, str],
        *,
        cohorts: bool = True,
        hash_keys: bool = True,
    ) -> Coroutine[Any, Any, StoredSubject]:
        """Static cohorts and hash keys only if they are wanted."""
        ...

    async def keep_hash_keys(
        self,
        project_id: ProjectId,
        distinct_ids: Sequence[str],
        hash_key: str,
        flags: Sequence[str],
    ) -> None:
        """For the persons of these ids: the first hash key of a flag stays for ever."""
        ...
