"""The automatic changes of surveys: start the next iteration, and end at the response limit."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from hedgerow.errors import NotFound
from hedgerow.flags.approvals.permit import BreakGlass, break_glass
from hedgerow.lib.clock import Clock
from hedgerow.projects.activity import SYSTEM
from hedgerow.projects.model import Project
from hedgerow.surveys.cache import SurveyCache
from hedgerow.surveys.model import Survey
from hedgerow.surveys.surveys import SurveyEdit, Surveys


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

    async def advance(self) -> None:
        """Advance all running surveys. Several processes may do it concurrently."""
        await self._cache.refresh_changed()
        if not any(cached.has_running for cached in self._cache.get_all().values()):
            return
        failures = []
        for project in await self._projects():
            for found in self._cache.get(project.id).surveys:
                try:
                    await self._advance_survey(project, found.survey)
                except NotFound:  # deleted concurrently
                    continue
                except Exception as error:  # noqa: BLE001 - raised after the other surveys
                    failures.append(error)
        if failures:
            raise failures[0]

    async def _advance_survey(self, project: Project, survey: Survey) -> None:
        if not survey.is_running:
            return
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
