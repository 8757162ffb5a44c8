"""The automatic changes of surveys: start the next iteration, and end at the response limit."""

import math
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from hedgerow.errors import NotFound
from hedgerow.flags.approvals.permit import BreakGlass, break_glass
from hedgerow.lib.clock import Clock
from hedgerow.projects.activity import SYSTEM
from hedgerow.projects.model import Project, ProjectId
from hedgerow.queries.due_work import DueWork
from hedgerow.surveys.cache import SurveyCache
from hedgerow.surveys.model import Survey
from hedgerow.surveys.surveys import SurveyEdit, Surveys

# How often to look at a survey while others take long.
LOOK_INTERVAL_S = 60.0


class ResponseCounts(Protocol):
    async def count_responses(
        self, project: Project, ids: Sequence[str], after: datetime, now: datetime
    ) -> Mapping[str, int]: ...


class SurveyLifecycle:
    def __init__(
        self,
        surveys: Surveys,
        cache: SurveyCache,
        responses: ResponseCounts,
        projects: Callable[[], Awaitable[Iterable[Project]]],
        clock: Clock,
    ) -> None:
        self._surveys = surveys
        self._cache = cache
        self._responses = responses
        self._projects = projects
        self._clock = clock
        self._work = DueWork(self._list_projects, self._advance_next)
        # Of a run of `advance`. When each survey was looked at, by the monotonic clock.
        self._by_id: dict[ProjectId, Project] = {}
        self._looked_at: dict[str, float] = {}
        self._failures: list[Exception] = []

    async def advance(self) -> None:
        """Advance all running surveys; projects take turns. Several processes may do it
        concurrently."""
        self._looked_at, self._failures = {}, []
        await self._work.run()
        if self._failures:
            raise self._failures[0]

    async def _list_projects(self) -> Sequence[ProjectId]:
        await self._cache.refresh_changed()
        if not any(cached.has_running for cached in self._cache.get_all().values()):
            return ()
        self._by_id = {project.id: project for project in await self._projects()}
        return [id for id in self._by_id if self._find_next(id) is not None]

    def _find_next(self, project_id: ProjectId) -> Survey | None:
        """Return the running survey that was not looked at for longest, if any is due."""

        def get_time(survey: Survey) -> float:
            return self._looked_at.get(survey.id, -math.inf)

        due_before = time.monotonic() - LOOK_INTERVAL_S
        surveys = (each.survey for each in self._cache.get(project_id).surveys)
        due = (each for each in surveys if each.is_running and get_time(each) < due_before)
        return min(due, key=get_time, default=None)

    async def _advance_next(self, project_id: ProjectId) -> None:
        survey = self._find_next(project_id)
        if survey is None:
            return
        self._looked_at[survey.id] = time.monotonic()
        try:
            await self._advance_survey(self._by_id[project_id], survey)
        except NotFound:  # deleted concurrently
            pass
        except Exception as error:  # noqa: BLE001 - raised after the other surveys
            self._failures.append(error)

    async def _advance_survey(self, project: Project, survey: Survey) -> None:
        now = self._clock()
        if survey.due_iteration(now) != survey.current_iteration:
            with break_glass(_permit("The next iteration of the survey is due.")):
                await self._surveys.change(project, survey.id, SurveyEdit(), SYSTEM, now)
        if survey.responses_limit and survey.start_date is not None:
            found = await self._responses.count_responses(
                project, [survey.id], survey.start_date, now
            )
            if found.get(survey.id, 0) >= survey.responses_limit:
                with break_glass(_permit("The survey has reached its limit of responses.")):
                    await self._surveys.end(project, survey.id, SYSTEM, now)


def _permit(reason: str) -> BreakGlass:
    """What a survey does by itself was decided with the survey, and waits for no approval."""
    return BreakGlass(reason=reason, actor=SYSTEM)
