"""Removal of deleted data from the disk.

A deletion hides its rows at once. Their bytes stay in the files until the files are written again,
which the purge does for those that have such rows.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from hedgerow.lib.clock import Clock
from hedgerow.projects.model import ProjectId


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletion:
    """The deletion of a person. `purged_at` is when no file contained the data any more."""

    person_uuid: str
    requested_at: datetime
    purged_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionQuery:
    project_id: ProjectId
    person_uuid: str = ""
    is_purged: bool | None = None
    limit: int
    offset: int


class DeletionLog(Protocol):
    async def begin(self, project_id: ProjectId, person_uuid: str, now: datetime) -> int:
        """Record that data is about to be deleted, and return the id of the entry."""
        ...

    async def end(
        self, id: int, now: datetime, *, is_personal: bool, is_complete: bool = True
    ) -> None:
        """Record that a deletion has ended, and forget what shows its data: results of insights,
        and if it is personal also alerts and pictures. What an incomplete one has deleted is purged
        too, but it is not listed any more."""
        ...

    async def list_deletions(self, query: DeletionQuery) -> tuple[list[Deletion], int]:
        """Return a page of the deletions of persons, newest first, and their number."""
        ...

    async def end_interrupted(self, now: datetime) -> None:
        """End the deletions whose process has ended. They are incomplete if the person is still
        there, who is deleted last."""
        ...

    async def list_unpurged(self) -> list[int]:
        """Return the ended deletions whose data may still be on the disk."""
        ...

    async def mark_purged(self, ids: list[int], now: datetime) -> None: ...


class DeletedDataPurge:
    """`purges` remove what is deleted by now from the disk, one store after the other."""

    def __init__(
        self,
        deletions: DeletionLog,
        purges: Sequence[Callable[[], Awaitable[None]]],
        clock: Clock,
    ) -> None:
        self._deletions = deletions
        self._purges = purges
        self._clock = clock

    async def run(self) -> None:
        await self._deletions.end_interrupted(self._clock())
        ids = await self._deletions.list_unpurged()
        if not ids:
            return
        for purge in self._purges:
            await purge()
        await self._deletions.mark_purged(ids, self._clock())
