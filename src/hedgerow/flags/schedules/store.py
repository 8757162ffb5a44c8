"""Where scheduled changes are stored."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from hedgerow.flags.model import Flag, FlagDefinitions, FlagId
from hedgerow.flags.schedules.model import ScheduledChange, ScheduledChangeId
from hedgerow.flags.store import FlagWrite
from hedgerow.projects.activity import ActivityEntry
from hedgerow.projects.model import ProjectId


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledChangeFilter:
    """Which scheduled changes to list; None means any. `search` is a part of the key of the flag,
    in any case."""

    search: str = ""
    flag_id: FlagId | None = None
    is_pending: bool | None = None
    limit: int = 100
    offset: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleContext:
    """What a write can read in its transaction. `pending` counts those of the project."""

    find: Callable[[ScheduledChangeId], ScheduledChange | None]
    find_flag: Callable[[FlagId], Flag | None]
    definitions: FlagDefinitions
    pending: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleWrite:
    """A scheduled change to store; a new one has no id yet. `build_entry` returns the activity
    entry."""

    change: ScheduledChange
    build_entry: Callable[[ScheduledChange], ActivityEntry | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """The outcome of a due change: the flag to store, and the change after it."""

    write: FlagWrite
    after: ScheduledChange


class ScheduledChangeStore(Protocol):
    async def scheduled_changes(
        self, project_id: ProjectId, wanted: ScheduledChangeFilter
    ) -> tuple[Sequence[ScheduledChange], int]:
        """Return a page, the next execution first, and the number of all."""
        ...

    async def flag_keys(
        self, project_id: ProjectId, ids: Collection[FlagId]
    ) -> Mapping[FlagId, str]:
        """Return the keys of flags, also of deleted ones."""
        ...

    async def scheduled_change(
        self, project_id: ProjectId, id: ScheduledChangeId
    ) -> ScheduledChange | None: ...

    async def write(
        self,
        project_id: ProjectId,
        decide: Callable[[ScheduleContext], Sequence[ScheduleWrite]],
        now: datetime,
    ) -> Sequence[ScheduledChange]:
        """Store all writes in one transaction."""
        ...

    async def delete(self, change: ScheduledChange, entry: ActivityEntry, now: datetime) -> bool:
        """Delete a change. Return False if it is gone, or was executed in between."""
        ...

    async def due(self, now: datetime, limit: int) -> Sequence[ScheduledChange]:
        """Return pending changes whose time has come, the oldest first."""
        ...

    async def execute(
        self,
        change: ScheduledChange,
        decide: Callable[[FlagDefinitions, Flag | None], Execution],
        now: datetime,
    ) -> bool:
        """Store the flag and the outcome in one transaction. Return False if another process has
        executed the change, or if it is gone."""
        ...

    async def save_failure(self, before: ScheduledChange, after: ScheduledChange) -> bool:
        """Store the outcome of a change that could not be executed. Return False as `execute`."""
        ...
