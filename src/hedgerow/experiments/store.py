"""Storage of experiments, implemented in `storage/experiments.py`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from hedgerow.experiments.model import Experiment, ExperimentId, ExperimentStatus
from hedgerow.flags.model import Flag, FlagDefinitions, FlagId
from hedgerow.flags.store import FlagWrite
from hedgerow.projects.activity import ActivityEntry
from hedgerow.projects.model import ProjectId

# The fields that a list can be ordered by.
ORDERS = ("name", "created_at", "updated_at", "start_date", "end_date")
NEWEST_FIRST = "-created_at"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentQuery:
    """Which experiments to list; None means any. Deleted ones are never listed. `is_on` filters by
    the state of the flag. `order` is one of ORDERS, with a leading hyphen for descending order;
    missing values come last."""

    search: str = ""
    status: ExperimentStatus | None = None
    is_on: bool | None = None
    created_by: str | None = None
    archived: bool | None = None
    flag_id: FlagId | None = None
    order: str = NEWEST_FIRST
    limit: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentWrite:
    """An experiment to store, with the change of its flag, if any. A new experiment and a new flag
    have no id yet."""

    experiment: Experiment
    flag: FlagWrite | None
    build_entry: Callable[[Experiment], ActivityEntry | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentWriteContext:
    """The stored state that a change is based on. `experiment` and `flag` also find deleted
    objects."""

    definitions: FlagDefinitions
    experiment: Callable[[ExperimentId], Experiment | None]
    flag: Callable[[FlagId], Flag | None]
    count: int


class ExperimentStore(Protocol):
    async def experiments(
        self, project_id: ProjectId, query: ExperimentQuery
    ) -> tuple[Sequence[tuple[Experiment, Flag]], int]:
        """Return one page of experiments with their flags, and the total number."""
        ...

    async def experiment(
        self, project_id: ProjectId, id: ExperimentId
    ) -> tuple[Experiment, Flag] | None:
        """Return an experiment, also a deleted one."""
        ...

    async def list_ids_by_flag(
        self, project_id: ProjectId
    ) -> Mapping[FlagId, Sequence[ExperimentId]]:
        """Return the ids of the experiments of each flag, without deleted ones."""
        ...

    async def write_experiment(
        self,
        project_id: ProjectId,
        decide: Callable[[ExperimentWriteContext], ExperimentWrite],
        now: datetime,
    ) -> tuple[Experiment, Flag]:
        """Store the result of `decide` in a transaction that is exclusive for the project."""
        ...
