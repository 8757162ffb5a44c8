"""A change of a flag that is executed at a later time, once or again and again."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, NewType
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from hedgerow.flags.model import FlagId
from hedgerow.projects.activity import Actor
from hedgerow.projects.model import ProjectId
from hedgerow.projects.recurrence import Frequency, Recurrence, find_next_date

ScheduledChangeId = NewType("ScheduledChangeId", int)

# What a scheduled change changes, as PostHog names it.
MODEL_NAME = "FeatureFlag"
# Of a project. Those that have ended do not count.
MAX_PENDING_CHANGES = 1_000
CRON_MAX_CHARS = 200


class Operation(StrEnum):
    """The first three are PostHog's."""

    UPDATE_STATUS = "update_status"
    ADD_RELEASE_CONDITION = "add_release_condition"
    UPDATE_VARIANTS = "update_variants"
    UPDATE_ROLLOUT = "update_rollout"
    UPDATE_FIELDS = "update_fields"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledChange:
    """`payload` has the operation and its value. `scheduled_at` is the next execution, and for a
    change that has ended the last one. `starts_at` is the first: a recurring change keeps its
    local time of day. `failure_reason` is that of the last execution; "" if it succeeded.
    `author_uuid` is the person, "" for the command line. `change_request_id` is the request whose
    approvals count when it is executed."""

    id: ScheduledChangeId
    project_id: ProjectId
    flag_id: FlagId
    payload: Mapping[str, Any]
    scheduled_at: datetime
    starts_at: datetime
    recurrence_interval: Frequency | None
    cron_expression: str
    end_date: datetime | None
    executed_at: datetime | None
    last_executed_at: datetime | None
    failure_reason: str
    author: Actor
    author_uuid: str
    created_at: datetime
    updated_at: datetime
    change_request_id: str | None = None

    @property
    def is_recurring(self) -> bool:
        return self.recurrence_interval is not None or bool(self.cron_expression)

    @property
    def is_pending(self) -> bool:
        return self.executed_at is None

    def find_next(self, after: datetime, zone: ZoneInfo) -> datetime | None:
        """Return the next execution after a time, None if there is none. Times that have passed
        are left out: after a downtime, a recurring change is made up for once."""
        found = None
        if self.recurrence_interval is not None:
            rule = Recurrence(frequency=self.recurrence_interval, interval=1, start=self.starts_at)
            found = find_next_date(rule, after, zone)
        elif self.cron_expression:
            found = find_next_cron(self.cron_expression, after, zone)
        if found is None or (self.end_date is not None and found > self.end_date):
            return None
        return found


def find_next_cron(expression: str, after: datetime, zone: ZoneInfo) -> datetime | None:
    """Return the first time of a cron expression after a time, None for an invalid one. A local
    time that the clocks skip is executed right after, and one that they repeat once."""
    try:
        return next(CronSim(expression, after.astimezone(zone))).astimezone(after.tzinfo)
    except (CronSimError, StopIteration):
        return None
