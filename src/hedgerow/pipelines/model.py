"""Pipeline records and jobs, as values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NewType

from hedgerow.lib import jsonio
from hedgerow.plugin.component import Family
from hedgerow.plugin.deprecated import find_old_name
from hedgerow.projects.model import ProjectId

RecordId = NewType("RecordId", int)
ComponentId = NewType("ComponentId", int)
JobId = NewType("JobId", str)

NAME_MAX = 400
DESCRIPTION_MAX = 1000
WEB_TOKEN_BITS = 128
INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A component as one project uses it. An empty name or description means the component's own.

    `config` holds the stored settings, with encrypted secrets. `switches` are the times in
    milliseconds at which it was enabled and disabled, alternately; the store maintains them.
    """

    id: RecordId
    project_id: ProjectId
    family: Family
    component_id: ComponentId
    component_version: str
    enabled: bool
    order: int
    name: str
    description: str
    deleted: bool
    config: Mapping[str, Any]
    web_token: str
    created_at: datetime
    updated_at: datetime
    switches: Sequence[int] = field(default=(), compare=False)

    def is_same_as(self, other: "Record") -> bool:
        return self == other and jsonio.is_equal(self.config, other.config)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordDraft:
    """A record to create. Without an order it goes to the end."""

    project_id: ProjectId
    family: Family
    component_id: ComponentId
    component_version: str
    enabled: bool
    order: int | None
    name: str
    description: str
    deleted: bool
    web_token: str


class JobStatus(StrEnum):
    WAITING = "waiting"  # no worker has acquired it yet
    RUNNING = "running"  # a worker holds its lease
    PAUSED = "paused"  # until a user resumes it
    DONE = "done"  # succeeded
    FAILED = "failed"  # `error` says why
    CANCELLED = "cancelled"  # by a user

    @property
    def is_over(self) -> bool:
        return self in (JobStatus.DONE, JobStatus.FAILED, JobStatus.CANCELLED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One run of a job, stored durably.

    A worker continues from `cursor`. `done` of `total` items are processed, at `rate` per second;
    `total` may be unknown. `details` depend on the type of the job. Since the last step, `crashes`
    processes have died that ran it, and it has run for `stalled_s`.
    """

    id: JobId
    record_id: RecordId
    type: str
    payload: Mapping[str, Any]
    status: JobStatus
    error: str
    requested_by: str
    created_at: datetime
    updated_at: datetime
    cursor: Any = None
    done: int = 0
    total: int | None = None
    rate: float = 0.0
    details: Mapping[str, Any] = field(default_factory=dict)
    started_at: datetime | None = None
    ended_at: datetime | None = None
    crashes: int = 0
    stalled_s: float = 0.0


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        return find_old_name(__name__, name)
