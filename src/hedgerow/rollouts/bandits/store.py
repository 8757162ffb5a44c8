"""Where bandits are stored."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from hedgerow.flags.model import Flag, FlagDefinitions, FlagId
from hedgerow.flags.store import FlagWrite
from hedgerow.projects.activity import ActivityEntry
from hedgerow.projects.model import ProjectId
from hedgerow.rollouts.bandits.model import Allocation, Bandit, BanditId, BanditState


@dataclass(frozen=True, slots=True, kw_only=True)
class BanditFilter:
    """Which bandits to list; None means any. `search` is a part of the name or of the flag's
    key."""

    search: str = ""
    flag_id: FlagId | None = None
    state: BanditState | None = None
    limit: int = 100
    offset: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BanditContext:
    """What a write can read in its transaction. `active` are the running and paused bandits of the
    project, by id, with their flags. `find_other_user` returns what else moves people between the
    variants of a flag or needs them to stay: a running experiment or a rollout plan, "" for
    none."""

    definitions: FlagDefinitions
    find_flag: Callable[[FlagId], Flag | None]
    find_other_user: Callable[[FlagId], str]
    active: Mapping[BanditId, FlagId]
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BanditWrite:
    """A bandit to store, or to delete if `is_deleted`; a new one has no id yet. `flag` is written
    in the same transaction. `beginning` is the flag before and after a change that stands for all
    that the bandit will make: it must pass the approval gate, and is not made."""

    bandit: Bandit
    build_entry: Callable[[Bandit], ActivityEntry | None]
    allocation: Allocation | None = None
    flag: FlagWrite | None = None
    beginning: tuple[Flag, Flag] | None = None
    is_deleted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BanditCheck:
    """The outcome of a look at a bandit after which the split stays."""

    reason: str
    allocation: Allocation
    next_check_at: datetime


Decide = Callable[[BanditContext, Bandit], BanditWrite | None]


class BanditStore(Protocol):
    async def bandits(
        self, project_id: ProjectId, wanted: BanditFilter
    ) -> tuple[Sequence[Bandit], int]:
        """Return a page, newest first, and the number of all."""
        ...

    async def bandit(self, project_id: ProjectId, id: BanditId) -> Bandit | None: ...

    async def flag(self, project_id: ProjectId, id: FlagId) -> Flag | None: ...

    async def flag_keys(
        self, project_id: ProjectId, ids: Collection[FlagId]
    ) -> Mapping[FlagId, str]: ...

    async def allocations(
        self, bandit: Bandit, limit: int, offset: int
    ) -> tuple[Sequence[Allocation], int]:
        """Return a page of the history, newest first, and the number of all."""
        ...

    async def create(
        self, project_id: ProjectId, decide: Callable[[BanditContext], BanditWrite], now: datetime
    ) -> Bandit: ...

    async def change(
        self, project_id: ProjectId, id: BanditId, decide: Decide, now: datetime
    ) -> Bandit | None:
        """Store what `decide` returns for the bandit as it is, with its flag, in one transaction.
        Return None and store nothing if it returns None, or if the bandit is gone. Raises
        ApprovalRequired if the write of the flag, or the beginning, lacks approvals."""
        ...

    async def list_due_projects(self, now: datetime) -> Sequence[ProjectId]:
        """Return the projects with bandits that `claim_due` would return."""
        ...

    async def claim_due(
        self, project_id: ProjectId, now: datetime, until: datetime
    ) -> Bandit | None:
        """Return a running bandit of a project that is due for a reallocation, if any, and keep
        other processes from it until then."""
        ...

    async def save_check(self, bandit: Bandit, check: BanditCheck) -> None:
        """Store a look, unless the bandit has changed since."""
        ...
