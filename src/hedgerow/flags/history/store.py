"""Storage of what is known about earlier times, implemented in `storage/flags/history.py`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from hedgerow.flags.history.rewind import PastDefinitions
from hedgerow.projects.activity import RecordedActivity
from hedgerow.projects.model import ProjectId


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupState:
    """A stored group, and when it changed last."""

    properties: Mapping[str, Any]
    updated_at: datetime


class FlagHistoryStore(Protocol):
    async def rewind(self, project_id: ProjectId, to: datetime) -> PastDefinitions:
        """Return the flags and cohorts of an earlier time. Raises Invalid if too many changes are
        recorded since then."""
        ...

    async def group(self, project_id: ProjectId, type_index: int, key: str) -> GroupState | None:
        """Return the present group."""
        ...

    async def person_changes(
        self, project_id: ProjectId, uuids: Sequence[str]
    ) -> Sequence[RecordedActivity]:
        """Return the latest changes that were made to these persons over the API."""
        ...

    async def count_deletions(self, project_id: ProjectId, since: datetime) -> int:
        """Count the deletions of persons and events since then, up to 100."""
        ...
