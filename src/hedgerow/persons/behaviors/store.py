"""Storage interface of behaviors."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from hedgerow.persons.behaviors.model import Behavior, BehaviorId
from hedgerow.projects.model import ProjectId

# Packed occurrences of behaviors, by distinct id.
NewOccurrences = Mapping[str, Mapping[BehaviorId, Sequence[bytes]]]


class BehaviorStore(Protocol):
    async def list_behaviors(self, project_id: ProjectId) -> Sequence[Behavior]:
        """Return the behaviors of a project that are in use, oldest first."""
        ...

    async def list_unfinished(self) -> Sequence[Behavior]:
        """Return the behaviors of all projects that are being built, or to be removed."""
        ...

    async def claim(self, behavior: Behavior) -> bool:
        """Return whether this process shall work on a behavior now. One process works on it for
        some time."""
        ...

    async def release(self, behavior: Behavior) -> None:
        """Let other processes work on it at once."""
        ...

    async def add(self, project_id: ProjectId, occurrences: NewOccurrences, now: datetime) -> None:
        """Add occurrences. Adding some again changes nothing."""
        ...

    async def save_progress(self, id: BehaviorId, *, done: int, total: int) -> None: ...

    async def finish(self, behavior: Behavior) -> None:
        """Put a behavior into use, instead of an earlier one with the same reference."""
        ...

    async def sweep(self, behavior: Behavior) -> bool:
        """Delete a removed behavior from some distinct ids. Return whether that was the last
        step."""
        ...

    async def doubt(self, project_id: ProjectId, now: datetime) -> bool:
        """Note that events are about to be deleted. Return whether the project has behaviors."""
        ...

    async def forget(self, project_id: ProjectId, distinct_ids: Collection[str]) -> None:
        """Delete all occurrences of some distinct ids."""
        ...

    async def trust(self, project_id: ProjectId) -> None:
        """Note that the occurrences are again those of the stored events."""
        ...

    async def rebuild(
        self,
        project_id: ProjectId,
        now: datetime,
        *,
        event: str = "",
        doubted_before: datetime | None = None,
    ) -> None:
        """Build behaviors again: those of an event, if one is given, and only those that have been
        doubted before a time, if one is given. Meanwhile the present ones stay in use."""
        ...

    async def list_doubted(self, before: datetime) -> Sequence[ProjectId]:
        """Return the projects with behaviors that have been doubted before a time."""
        ...
