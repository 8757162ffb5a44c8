"""Where the flags of several projects are changed at once."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from hedgerow.flags.model import Flag, FlagDefinitions
from hedgerow.flags.store import FlagWrite
from hedgerow.persons.model import Cohort
from hedgerow.projects.activity import ActivityEntry
from hedgerow.projects.model import ProjectId


@dataclass(frozen=True, slots=True, kw_only=True)
class CohortWrite:
    """A new cohort. `build_entry` returns the activity entry."""

    cohort: Cohort
    build_entry: Callable[[Cohort], ActivityEntry]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectWriter:
    """Changes one project in an open transaction."""

    definitions: FlagDefinitions
    store_flag: Callable[[FlagWrite], Flag]
    add_cohort: Callable[[CohortWrite], Cohort]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovedRequest:
    """A change request of the project that is changed."""

    project_id: ProjectId
    id: str


class EnvironmentStore(Protocol):
    async def write_projects(
        self,
        project_ids: Sequence[ProjectId],
        work: Callable[[Mapping[ProjectId, ProjectWriter]], None],
        now: datetime,
        approval: ApprovedRequest | None = None,
    ) -> None:
        """Let `work` change several projects, all or none, while they are locked. With an approved
        request, its votes count, and it is applied in the same transaction; Conflict says that it
        is not approved any more."""
        ...
