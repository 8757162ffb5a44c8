"""What this room needs of storage. storage/pipelines.py answers."""

from typing import Protocol

from hedgerow.pipelines.model import Family, Record
from hedgerow.projects.model import ProjectId


class RecordStore(Protocol):
    async def records(
        self, project_id: ProjectId, family: Family, *, limit: int, offset: int
    ) -> tuple[list[Record], int]:
        """One page of the records that are not deleted, by order and id, and how many there are."""
        ...
