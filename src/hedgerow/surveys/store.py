"""Storage of surveys, implemented in `storage/surveys.py`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from hedgerow.flags.model import Flag, FlagDefinitions, FlagId
from hedgerow.flags.store import FlagWrite
from hedgerow.projects.activity import ActivityEntry
from hedgerow.projects.model import ProjectId
from hedgerow.surveys.model import Survey, SurveyWithFlags

# The generations of a project's surveys and flags. The payload contains keys of flags.
Generation = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class SurveyWrite:
    """A survey to store, or to delete if `is_deleted`, with its new or changed flags and the flags
    to delete."""

    survey: Survey
    internal: FlagWrite | None
    targeting: FlagWrite | None
    deleted_flags: Sequence[FlagWrite] = ()
    entry: ActivityEntry | None
    is_deleted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SurveyWriteContext:
    """The stored state that a change is based on: flag definitions, and all surveys by id."""

    definitions: FlagDefinitions
    surveys: Mapping[str, Survey]

    def flag(self, id: FlagId | None) -> Flag | None:
        return next((flag for flag in self.definitions.flags if flag.id == id), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSurveys:
    """All surveys of a project, newest first."""

    generation: Generation
    surveys: Sequence[SurveyWithFlags]


class SurveyStore(Protocol):
    async def generations(self) -> Mapping[ProjectId, Generation]:
        """Return the generation of every project that ever had a survey."""
        ...

    async def generation(self, project_id: ProjectId) -> Generation: ...

    async def surveys(self, project_id: ProjectId) -> StoredSurveys: ...

    async def write_survey(
        self,
        project_id: ProjectId,
        decide: Callable[[SurveyWriteContext], SurveyWrite],
        now: datetime,
    ) -> SurveyWithFlags:
        """Store the result of `decide` in a transaction that is exclusive for the project."""
        ...
