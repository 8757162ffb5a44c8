"""An experiment: the variants of a flag, a period and metrics."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, NewType

from hedgerow.flags.model import FlagId
from hedgerow.projects.model import ProjectId

ExperimentId = NewType("ExperimentId", int)

UNSAVED_ID = ExperimentId(0)
CONTROL = "control"
# The key that counts people who saw several variants.
MULTIPLE = "$multiple"


class ExperimentStatus(StrEnum):
    DRAFT = "draft"
    RUNNING = "running"
    STOPPED = "stopped"


class Conclusion(StrEnum):
    WON = "won"
    LOST = "lost"
    INCONCLUSIVE = "inconclusive"
    STOPPED_EARLY = "stopped_early"
    INVALID = "invalid"


class ExperimentType(StrEnum):
    """Where the experiment runs. It has no effect in Hedgerow."""

    WEB = "web"
    PRODUCT = "product"


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """`metrics` and the other documents are in PostHog's format, as they were sent. `rest` holds
    documents that have no effect in Hedgerow. A draft uses the variants of its flag; from the
    launch on `parameters` contains a copy."""

    id: ExperimentId
    project_id: ProjectId
    flag_id: FlagId
    name: str
    description: str
    type: ExperimentType
    start_date: datetime | None
    end_date: datetime | None
    archived: bool
    deleted: bool
    parameters: Mapping[str, Any]
    metrics: Sequence[Any]
    metrics_secondary: Sequence[Any]
    exposure_criteria: Mapping[str, Any]
    stats_config: Mapping[str, Any]
    holdout: Mapping[str, Any] | None
    rest: Mapping[str, Any]
    conclusion: Conclusion | None
    conclusion_comment: str
    created_by: str
    created_at: datetime
    updated_at: datetime

    @property
    def status(self) -> ExperimentStatus:
        if self.start_date is None:
            return ExperimentStatus.DRAFT
        return ExperimentStatus.RUNNING if self.end_date is None else ExperimentStatus.STOPPED
