"""An experiment as a value: a flag's variants, when they were compared, and by which metrics."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, NewType

from hedgerow.flags.model import FlagId
from hedgerow.projects.model import ProjectId

ExperimentId = NewType("ExperimentId", int)

NEW = ExperimentId(0)
CONTROL = "control"
# What people are counted as who saw several variants.
MULTIPLE = "$multiple"


class Status(StrEnum):
    DRAFT = "draft"
    RUNNING = "running"
    STOPPED = "stopped"


class Conclusion(StrEnum):
    WON = "won"
    LOST = "lost"
    INCONCLUSIVE = "inconclusive"
    STOPPED_EARLY = "stopped_early"
    INVALID = "invalid"


class Kind(StrEnum):
    """What people try it in; it changes nothing here."""

    WEB = "web"
    PRODUCT = "product"


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """`metrics` and the like are PostHog's documents as they were sent. `rest` holds those that
    mean nothing here. A draft's variants are the flag's; from the launch on `parameters` keep them.
    """

    id: ExperimentId
    project_id: ProjectId
    flag_id: FlagId
    name: str
    description: str
    type: Kind
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
    def status(self) -> Status:
        if self.start_date is None:
            return Status.DRAFT
        return Status.RUNNING if self.end_date is None else Status.STOPPED
