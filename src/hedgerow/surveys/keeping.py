"""What becomes of surveys by themselves: the next iteration begins, or there are answers enough."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from hedgerow.errors import NotFound
from hedgerow.lib.clock import Clock
from hedgerow.projects.activity import SYSTEM
from hedgerow.projects.model import Project
from hedgerow.surveys.board import SurveyBoard
from hedgerow.surveys.model import Survey
from hedgerow.surveys.surveys import Surveys, Wish


class Answers(Protocol):
    async def counts(
        self, project: Project, ids: Sequence[str], after: datetime, now: datetime
    ) -> Mapping[str, int]: ...


class Keeping:
    def __init__(
        self,
        surveys: Surveys,
        board: SurveyBoard,
        answers: Answers,
        projects: Callable[[], Awaitable[Iterable[Project]]],
        clock: Clock,
    ) -> None:
        self._surveys = surveys
        self._board = board
        self._answers = answers
        self._projects = projects
        self._clock = clock

    async def keep(self) -> None:
        """One turn of the background loop. Several may do it at once."""
        await self._board.watch()
        if not any(shown.any_runs for shown in self._board.all().values()):
            return
        failures = []
        for project in await self._projects():
            for found in self._board.of(project.id).surveys:
                try:
                    await self._see_to(project, found.survey)
                except NotFound:  # somebody has just deleted it
                    continue
                except Exception as error:  # noqa: BLE001 - raised once the others were seen to
                    failures.append(error)
        if failures:
            raise failures[0]

    async def _see_to(self, project: Project, survey: Survey) -> None:
        if not survey.is_running:
            return
        now = self._clock()
        if survey.due_iteration(now) != survey.current_iteration:
            await self._surveys.change(project, survey.id, Wish(), SYSTEM, now)
        if survey.responses_limit and survey.start_date is not None:
            found = await self._answers.counts(project, [survey.id], survey.start_date, now)
            if found.get(survey.id, 0) >= survey.responses_limit:
                await self._surveys.end(project, survey.id, SYSTEM, now)
