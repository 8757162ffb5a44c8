"""What this room needs of storage. storage/surveys.py answers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from hedgerow.flags.model import Definitions, Flag, FlagId
from hedgerow.flags.store import FlagWrite
from hedgerow.projects.activity import Entry
from hedgerow.projects.model import ProjectId
from hedgerow.surveys.model import Flagged, Survey

# Of a project's surveys, and of its flags: what pages are told names flags by their keys.
Generation = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class SurveyWrite:
    """A survey to store or, if `is_deleted`, to remove, with its flags that are new or changed, and
    those that go with it or away from it."""

    survey: Survey
    internal: FlagWrite | None
    targeting: FlagWrite | None
    gone: Sequence[FlagWrite] = ()
    entry: Entry | None
    is_deleted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What is stored while a change is decided: the definitions, and all surveys by their id."""

    definitions: Definitions
    surveys: Mapping[str, Survey]

    def flag(self, id: FlagId | None) -> Flag | None:
        return next((flag for flag in self.definitions.flags if flag.id == id), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """All surveys of a project, newest first."""

    generation: Generation
    surveys: Sequence[Flagged]


class SurveyStore(Protocol):
    async def generations(self) -> Mapping[ProjectId, Generation]:
        """Of every project that ever had a survey."""
        ...

    async def generation(self, project_id: ProjectId) -> Generation: ...

    async def surveys(self, project_id: ProjectId) -> Stored: ...

    async def write_survey(
        self,
        project_id: ProjectId,
        decide: Callable[[Surroundings], SurveyWrite],
        now: datetime,
    ) -> Flagged:
        """Store what `decide` makes of what is there, alone with the project."""
        ...
