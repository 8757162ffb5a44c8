"""Deletion of projects.

The project is gone for every reader when `Projects.delete` returns. Its data is deleted after, by
`events/project_erasure.py`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from hedgerow.projects.model import ProjectId


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectDeletion:
    """A deleted project. `events_deleted` is None until they are counted, `purged_at` until no
    table and no file contains data of the project."""

    project_id: ProjectId
    name: str
    requested_at: datetime
    rows_deleted: int
    events_deleted: int | None
    purged_at: datetime | None


class ProjectDeletions(Protocol):
    """Deleted projects, and the rows that they leave in the state database."""

    async def list_deletions(
        self, *, is_purged: bool | None, limit: int, offset: int
    ) -> tuple[list[ProjectDeletion], int]:
        """Return a page of deletions, newest first, and their number."""
        ...

    async def list_unpurged(self) -> list[ProjectDeletion]: ...

    async def count_rows(self, project_id: ProjectId) -> Mapping[str, int]:
        """Count what a user would miss, by its name in the plural."""
        ...

    async def acquire(self, project_id: ProjectId) -> bool:
        """Acquire or renew the lease of a deletion. Return False if another process holds it."""
        ...

    async def release(self, project_id: ProjectId) -> None: ...

    @property
    def table_count(self) -> int: ...

    async def delete_batch(self, project_id: ProjectId, table: int) -> int:
        """Delete some rows of the table with this number, and return how many."""
        ...

    async def save_event_count(self, project_id: ProjectId, count: int) -> None: ...

    async def find_newest_processed(self) -> int:
        """Return the number of the newest processed event row that waits for the event store."""
        ...

    async def has_processed_until(self, newest: int) -> bool:
        """Return whether such rows up to this number still wait."""
        ...

    async def mark_purged(self, project_id: ProjectId, now: datetime) -> None: ...
