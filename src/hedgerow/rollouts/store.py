"""Where rollout plans are stored."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from hedgerow.events.model import Event
from hedgerow.flags.model import Flag, FlagDefinitions, FlagId
from hedgerow.flags.store import FlagWrite
from hedgerow.pipelines.model import RecordId
from hedgerow.projects.activity import ActivityEntry
from hedgerow.projects.model import ProjectId
from hedgerow.rollouts.model import Evaluation, PlanId, PlanState, RolloutPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFilter:
    """Which plans to list; None means any. `search` is a part of the name or of the flag's key."""

    search: str = ""
    flag_id: FlagId | None = None
    state: PlanState | None = None
    limit: int = 100
    offset: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanContext:
    """What a write can read in its transaction. `active` are the running and paused plans of the
    project, by id, with their flags; `destinations` all destinations of the project. `find_bandit`
    returns the bandit that moves the variants of a flag, "" for none."""

    definitions: FlagDefinitions
    find_flag: Callable[[FlagId], Flag | None]
    active: Mapping[PlanId, FlagId]
    count: int
    destinations: Collection[RecordId]
    find_bandit: Callable[[FlagId], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanWrite:
    """A plan to store, or to delete if `is_deleted`; a new one has no id yet. `flag` is written in
    the same transaction, `message` goes to the destinations of the plan."""

    plan: RolloutPlan
    build_entry: Callable[[RolloutPlan], ActivityEntry | None]
    evaluation: Evaluation | None = None
    flag: FlagWrite | None = None
    message: Event | None = None
    is_deleted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanCheck:
    """The outcome of a look at a plan after which nothing changes."""

    reason: str
    evaluation: Evaluation
    next_check_at: datetime


Decide = Callable[[PlanContext, RolloutPlan], PlanWrite | None]


class RolloutPlanStore(Protocol):
    async def plans(
        self, project_id: ProjectId, wanted: PlanFilter
    ) -> tuple[Sequence[RolloutPlan], int]:
        """Return a page, newest first, and the number of all."""
        ...

    async def plan(self, project_id: ProjectId, id: PlanId) -> RolloutPlan | None: ...

    async def flag(self, project_id: ProjectId, id: FlagId) -> Flag | None: ...

    async def flag_keys(
        self, project_id: ProjectId, ids: Collection[FlagId]
    ) -> Mapping[FlagId, str]: ...

    async def evaluations(
        self, plan: RolloutPlan, limit: int, offset: int
    ) -> tuple[Sequence[Evaluation], int]:
        """Return a page of the history, newest first, and the number of all."""
        ...

    async def create(
        self, project_id: ProjectId, decide: Callable[[PlanContext], PlanWrite], now: datetime
    ) -> RolloutPlan: ...

    async def change(
        self, project_id: ProjectId, id: PlanId, decide: Decide, now: datetime
    ) -> RolloutPlan | None:
        """Store what `decide` returns for the plan as it is, with its flag, in one transaction.
        Return None and store nothing if it returns None, or if the plan is gone. Raises
        ApprovalRequired if the write of the flag lacks approvals."""
        ...

    async def list_due_projects(self, now: datetime) -> Sequence[ProjectId]:
        """Return the projects with plans that `claim_due` would return."""
        ...

    async def claim_due(
        self, project_id: ProjectId, now: datetime, until: datetime
    ) -> RolloutPlan | None:
        """Return a running plan of a project that is due for a check, if any, and keep other
        processes from it until then."""
        ...

    async def save_check(self, plan: RolloutPlan, check: PlanCheck) -> None:
        """Store a check, unless the plan has changed since. Some checks get into the history."""
        ...
