"""A pipeline record, its family and its jobs, as values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, NewType

from hedgerow.lib import jsonio
from hedgerow.projects.model import ProjectId

RecordId = NewType("RecordId", int)
ComponentId = NewType("ComponentId", int)
JobId = NewType("JobId", str)

NAME_MAX = 400
DESCRIPTION_MAX = 1000
WEB_TOKEN_BITS = 128


class Family(StrEnum):
    """The kinds of record. They share one shape and never see each other."""

    DESTINATION = "destination"
    FRONTEND_APP = "frontend_app"
    IMPORT_APP = "import_app"
    TRANSFORMATION = "transformation"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A component as one project uses it. An empty name or description means the component's own.

    `config` is as it is stored: the values of secret settings are sealed. `switches` are
    the moments at which it was enabled or disabled, in milliseconds, kept by storage.
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
        return self == other and jsonio.same(self.config, other.config)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordDraft:
    """A record that is about to be made. No order means after the last."""

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
    WAITING = "waiting"  # stored, nobody has taken it yet
    RUNNING = "running"  # a worker holds it
    PAUSED = "paused"  # put aside until somebody says so
    DONE = "done"  # ended well
    FAILED = "failed"  # ended badly; `error` says why
    CANCELLED = "cancelled"  # ended because somebody said so

    @property
    def is_over(self) -> bool:
        return self in (JobStatus.DONE, JobStatus.FAILED, JobStatus.CANCELLED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One run that was asked for: durable, visible, cancellable.

    `cursor` is where to go on. `done` counts what was looked at, of `total` if that is known, by
    `rate` a second; `details` is what else there is to tell, as the kind of job has it.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class FileMark:
    """A file that was imported wholly, in one version of it."""

    name: str
    version: str


class JobProblem(Exception):
    """Why a job cannot go on, in words for people."""
