"""What this room needs of storage. storage/experiments.py answers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from hedgerow.experiments.model import Experiment, ExperimentId, Status
from hedgerow.flags.model import Definitions, Flag, FlagId
from hedgerow.flags.store import FlagWrite
from hedgerow.projects.activity import Entry
from hedgerow.projects.model import ProjectId

# What a list can be ordered by.
ORDERS = ("name", "created_at", "updated_at", "start_date", "end_date")
NEWEST_FIRST = "-created_at"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentQuery:
    """Which experiments to list; None means any. Deleted ones are never listed. `is_on` asks
    whether the flag is. `order` is one of ORDERS, with a hyphen before it from the last to the
    first; those that have none come last."""

    search: str = ""
    status: Status | None = None
    is_on: bool | None = None
    created_by: str | None = None
    archived: bool | None = None
    flag_id: FlagId | None = None
    order: str = NEWEST_FIRST
    limit: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentWrite:
    """An experiment to store, with the change of its flag if there is one. A new experiment has no
    id yet, and neither has a new flag."""

    experiment: Experiment
    flag: FlagWrite | None
    tell: Callable[[Experiment], Entry | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What is stored while a change is decided. Both find deleted ones, too."""

    definitions: Definitions
    experiment: Callable[[ExperimentId], Experiment | None]
    flag: Callable[[FlagId], Flag | None]
    count: int


class ExperimentStore(Protocol):
    async def experiments(
        self, project_id: ProjectId, query: ExperimentQuery
    ) -> tuple[Sequence[tuple[Experiment, Flag]], int]:
        """One page with their flags, and how many there are."""
        ...

    async def experiment(
        self, project_id: ProjectId, id: ExperimentId
    ) -> tuple[Experiment, Flag] | None:
        """Also a deleted one."""
        ...

    async def by_flag(self, project_id: ProjectId) -> Mapping[FlagId, Sequence[ExperimentId]]:
        """The experiments of each flag that has any, without the deleted ones."""
        ...

    async def write_experiment(
        self,
        project_id: ProjectId,
        decide: Callable[[Surroundings], ExperimentWrite],
        now: datetime,
    ) -> tuple[Experiment, Flag]:
        """Store what `decide` makes of what is there, alone with the project."""
        ...
