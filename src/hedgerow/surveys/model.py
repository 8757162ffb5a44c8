"""A survey and its schedule."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from hedgerow.flags.model import Flag, FlagId
from hedgerow.projects.model import ProjectId

MAX_SURVEYS = 1000
MAX_ITERATIONS = 500
MAX_FREQUENCY_DAYS = 3650


class SurveyType(StrEnum):
    POPOVER = "popover"
    WIDGET = "widget"
    EXTERNAL = "external_survey"
    API = "api"

    @property
    def is_shown_by_sdk(self) -> bool:
        return self in (SurveyType.POPOVER, SurveyType.WIDGET)


class SurveySchedule(StrEnum):
    ONCE = "once"
    RECURRING = "recurring"
    ALWAYS = "always"


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """`questions`, `conditions`, `appearance` and `translations` are documents in PostHog's format,
    as SDKs read them."""

    id: str
    project_id: ProjectId
    name: str
    description: str
    type: SurveyType
    schedule: SurveySchedule | None
    linked_flag_id: FlagId | None
    targeting_flag_id: FlagId | None
    internal_targeting_flag_id: FlagId
    questions: Sequence[Mapping[str, Any]]
    conditions: Mapping[str, Any] | None
    appearance: Mapping[str, Any] | None
    translations: Mapping[str, Any] | None
    start_date: datetime | None
    end_date: datetime | None
    archived: bool
    responses_limit: int | None
    iteration_count: int | None
    iteration_frequency_days: int | None
    current_iteration: int | None
    enable_partial_responses: bool
    created_by: str
    created_at: datetime
    updated_at: datetime

    @property
    def is_running(self) -> bool:
        """Whether SDKs treat the survey as running. They do not compare its dates with the current
        time."""
        return self.start_date is not None and self.end_date is None and not self.archived

    @property
    def is_recurring(self) -> bool:
        return bool(self.iteration_count) and bool(self.iteration_frequency_days)

    @property
    def property_suffix(self) -> str:
        """The suffix of the person properties that SDKs set when someone answers or dismisses the
        survey."""
        return f"{self.id}/{self.current_iteration or 1}" if self.is_recurring else self.id

    @property
    def iteration_start_dates(self) -> list[datetime] | None:
        if not self.is_recurring:
            return []
        if self.start_date is None:
            return None
        return [self._iteration_start(n, self.start_date) for n in range(self.iteration_count or 0)]

    @property
    def current_iteration_start_date(self) -> datetime | None:
        if self.current_iteration is None or self.start_date is None:
            return None
        return self._iteration_start(self.current_iteration - 1, self.start_date)

    def due_iteration(self, now: datetime) -> int | None:
        """Return the number of the current iteration, from 1. None if the survey does not recur or
        has not started."""
        count, days = self.iteration_count, self.iteration_frequency_days
        if not count or not days or self.start_date is None:
            return None
        until = now if self.end_date is None else min(now, self.end_date)
        passed = (until - self.start_date) // timedelta(days=days)
        return min(max(passed + 1, 1), count)

    def _iteration_start(self, number: int, start: datetime) -> datetime:
        return start + timedelta(days=number * (self.iteration_frequency_days or 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class SurveyWithFlags:
    """A survey with its internal flag, its targeting flag and its linked flag."""

    survey: Survey
    internal: Flag
    targeting: Flag | None
    linked: Flag | None

    @property
    def owned_ids(self) -> set[FlagId]:
        return {flag.id for flag in (self.internal, self.targeting) if flag is not None}
