"""A bandit: it moves the split of a flag towards the variant that is best by a metric."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, NewType

from hedgerow.flags.model import FlagId
from hedgerow.projects.activity import Actor
from hedgerow.projects.model import ProjectId

BanditId = NewType("BanditId", int)

MAX_BANDITS = 1_000
# Running and paused ones of a project: each costs a query at each reallocation.
MAX_ACTIVE_BANDITS = 20
# Reallocations that are kept for each bandit.
MAX_ALLOCATIONS = 1_000
NAME_MAX_CHARS = 255
DEFAULT_FLOOR_PERCENT = 5
MIN_INTERVAL_S, MAX_INTERVAL_S = 60, 7 * 86_400
DEFAULT_INTERVAL_S = 3_600
DEFAULT_MIN_PERSONS = 100
LEAST_MIN_PERSONS, MOST_MIN_PERSONS = 10, 10_000_000
# How long after the exposure events count, for a metric that does not say.
DEFAULT_WINDOW = timedelta(days=1)


class BanditState(StrEnum):
    DRAFT = "draft"
    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"

    @property
    def is_active(self) -> bool:
        """Whether the bandit holds its flag: no other bandit of the flag can start."""
        return self in (BanditState.RUNNING, BanditState.PAUSED)


class AllocationKind(StrEnum):
    """What happened. The first is a look at the metric after which the split stays."""

    CHECKED = "checked"
    STARTED = "started"
    REALLOCATED = "reallocated"
    PAUSED = "paused"
    RESUMED = "resumed"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """An entry of the history. `why` is a sentence, `variants` the evidence for each variant with
    the split before and after."""

    kind: AllocationKind
    created_at: datetime
    why: str
    variants: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Bandit:
    """`metric` and `exposure_criteria` are documents as experiments have them. `split` is the one
    that the bandit has left, by variant. `reason` says why the bandit is in its state,
    `variants_found` is the latest evidence. People who are exposed from `learning_since` on count.
    `version` changes with each change and each transition. The author is who created, changed or
    started the bandit last; `author_uuid` is "" for the command line. The approvals of the change
    request count for its reallocations."""

    id: BanditId
    project_id: ProjectId
    flag_id: FlagId
    name: str
    metric: Mapping[str, Any]
    exposure_criteria: Mapping[str, Any]
    floor_percent: int
    interval: timedelta
    min_persons: int
    author: Actor
    author_uuid: str
    created_at: datetime
    updated_at: datetime
    state: BanditState = BanditState.DRAFT
    reason: str = ""
    split: Mapping[str, float] = field(default_factory=dict)
    learning_since: datetime | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    next_check_at: datetime | None = None
    last_checked_at: datetime | None = None
    variants_found: Sequence[Mapping[str, Any]] = ()
    change_request_id: str | None = None
    version: int = 1

    @property
    def is_active(self) -> bool:
        return self.state.is_active
