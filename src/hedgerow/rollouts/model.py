"""A rollout plan, its guardrail metrics, and what was found out about them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, NewType

from hedgerow.flags.model import FlagId
from hedgerow.pipelines.model import RecordId
from hedgerow.projects.activity import Actor
from hedgerow.projects.model import ProjectId

PlanId = NewType("PlanId", int)

MAX_PLANS = 1_000
# Running and paused ones of a project: each costs a query every few seconds.
MAX_ACTIVE_PLANS = 20
MAX_STEPS = 20
MAX_METRICS = 5
MAX_DESTINATIONS = 10
# Evaluations that are kept for each plan.
MAX_EVALUATIONS = 1_000
NAME_MAX_CHARS = 255
MAX_DURATION_S = 90 * 86_400
MAX_WINDOW_S = 7 * 86_400
DEFAULT_WINDOW_S = 300
DEFAULT_ALPHA = 0.05
DEFAULT_MIN_PERSONS = 100


class PlanState(StrEnum):
    DRAFT = "draft"
    RUNNING = "running"
    PAUSED = "paused"
    ROLLED_BACK = "rolled_back"
    COMPLETED = "completed"
    STOPPED = "stopped"

    @property
    def is_active(self) -> bool:
        """Whether the plan holds its flag: no other plan of the flag can start."""
        return self in (PlanState.RUNNING, PlanState.PAUSED)


class HarmAction(StrEnum):
    PAUSE = "pause"
    ROLL_BACK = "roll_back"


class NoDataRule(StrEnum):
    """What a step does whose time is over while a metric has too little data."""

    WAIT = "wait"
    ADVANCE = "advance"


class MetricType(StrEnum):
    CONVERSION = "conversion"
    COUNT = "count"
    SUM = "sum"
    MEAN = "mean"
    RATIO = "ratio"
    HOGQL = "hogql"


class Direction(StrEnum):
    INCREASE = "increase"
    DECREASE = "decrease"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    percentage: float
    duration: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Guardrail:
    """A metric that must not get worse. `harm` is the direction that is worse."""

    name: str
    type: MetricType
    harm: Direction
    min_persons: int
    event: str = ""
    properties: Sequence[Any] = ()
    denominator_event: str = ""
    denominator_properties: Sequence[Any] = ()
    property: str = ""
    expression: str = ""


class EvaluationKind(StrEnum):
    """What happened. The first is a look at the metrics after which nothing changed."""

    CHECKED = "checked"
    STARTED = "started"
    ADVANCED = "advanced"
    HARM_FOUND = "harm_found"
    PAUSED = "paused"
    RESUMED = "resumed"
    ROLLED_BACK = "rolled_back"
    STOPPED = "stopped"
    COMPLETED = "completed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """An entry of the history. `why` is a sentence, `metrics` the evidence for each metric."""

    kind: EvaluationKind
    created_at: datetime
    step_index: int | None
    percentage: float | None
    why: str
    metrics: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutPlan:
    """`percentage_before` is that of the condition before the plan; a rollback returns to it.
    `reason` says why the plan is in its state, `metrics_found` is the latest evidence. `version`
    changes with each change and each transition. The author is who created, changed or started the
    plan last; `author_uuid` is "" for the command line."""

    id: PlanId
    project_id: ProjectId
    flag_id: FlagId
    condition_index: int
    name: str
    steps: Sequence[Step]
    metrics: Sequence[Guardrail]
    alpha: float
    window: timedelta
    on_harm: HarmAction
    on_no_data: NoDataRule
    destinations: Sequence[RecordId]
    author: Actor
    author_uuid: str
    created_at: datetime
    updated_at: datetime
    state: PlanState = PlanState.DRAFT
    reason: str = ""
    step_index: int | None = None
    step_started_at: datetime | None = None
    percentage_before: float | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    next_check_at: datetime | None = None
    last_checked_at: datetime | None = None
    metrics_found: Sequence[Mapping[str, Any]] = field(default_factory=tuple)
    version: int = 1

    @property
    def is_active(self) -> bool:
        return self.state.is_active

    @property
    def step(self) -> Step | None:
        return None if self.step_index is None else self.steps[self.step_index]

    @property
    def step_ends_at(self) -> datetime | None:
        if self.step is None or self.step_started_at is None:
            return None
        return self.step_started_at + self.step.duration

    @property
    def test_alpha(self) -> float:
        """The error rate of each test, so that all tests of the plan together have `alpha`. At
        100 % all have the feature, and there is no test."""
        guarded = sum(step.percentage < 100 for step in self.steps)
        return self.alpha / max(guarded * len(self.metrics), 1)
