"""Tracked behaviors: what is counted for the persons of a project."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, NewType

from hedgerow.projects.model import ProjectId

BehaviorId = NewType("BehaviorId", int)

# All behaviors of a project, and the occurrences of all of them that a distinct id can have.
MAX_BEHAVIORS = 200
MAX_DEPTH = 10_000


class BehaviorState(StrEnum):
    """BUILDING: stored events are being counted. READY: in use. REMOVED: no longer in use, and to
    be deleted from the distinct ids."""

    BUILDING = "building"
    READY = "ready"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Behavior:
    """Occurrences of one kind. `reference` is that of the filters that use it, `definition` what
    it matches: the steps of an action can change. `done` of `total` parts of the work of its state
    are done, and the text `cursor` says where it continues."""

    id: BehaviorId
    project_id: ProjectId
    reference: str
    definition: Mapping[str, Any]
    depth: int
    state: BehaviorState
    done: int
    total: int
    cursor: str
    # When events of this behavior began to be deleted, None if it counts all that are stored.
    doubted_at: datetime | None
    created_at: datetime

    @property
    def progress(self) -> int:
        """How much of the stored events is counted, in percent."""
        if self.state is BehaviorState.READY:
            return 100
        return min(99, 100 * self.done // self.total) if self.total else 0
