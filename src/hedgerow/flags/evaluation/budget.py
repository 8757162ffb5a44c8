"""The budgets of flag evaluation, in CPU time: per flag, per request and per project.

The event loop serves every project, so an evaluation whose worst case is long runs in slices with
pauses, and ends when a budget is used up. A flag that was not evaluated fails; the others have
their results.
"""

import asyncio
from collections.abc import Callable, Iterator
from time import monotonic, perf_counter, thread_time

from hedgerow.flags.evaluation.evaluation_context import (
    BudgetExceeded,
    EvaluationBudget,
    EvaluationContext,
)
from hedgerow.projects.model import ProjectId

# An evaluation whose worst case is shorter has no budget: it is short by construction.
CHEAP_COST_US = 2000
FLAG_BUDGET_S = 0.010
REQUEST_BUDGET_S = 0.100
# A slow match begins only within this time. The longest match takes about 10 ms.
MATCH_BUDGET_S = 0.005
# A project uses at most this share of the time for slow matches, slow flags and long evaluations.
# While that is used up, its flags that can be slow fail at once.
PROJECT_SHARE = 0.1
PROJECT_BURST_S = 0.1
SLOW_FLAG_S = 0.001
SLOW_FLAG_COST_US = 1000
LONG_EVALUATION_S = 0.010
# One slice of one evaluation starts in each interval.
SLICE_S = 0.002
INTERVAL_S = 0.004
MAX_PAUSED_PER_PROJECT = 4
REPORT_INTERVAL_S = 60.0

Clock = Callable[[], float]


class ProjectBudget:
    """A token bucket of CPU seconds."""

    def __init__(self, clock: Clock = monotonic) -> None:
        self._clock = clock
        self._left_s = PROJECT_BURST_S
        self._filled_at_s = clock()
        self.paused = 0
        self.reported_at_s = -REPORT_INTERVAL_S

    def is_spent(self) -> bool:
        now_s = self._clock()
        gained_s = (now_s - self._filled_at_s) * PROJECT_SHARE
        self._left_s = min(PROJECT_BURST_S, self._left_s + gained_s)
        self._filled_at_s = now_s
        return self._left_s <= 0

    def spend(self, seconds: float) -> None:
        self._left_s -= seconds


class RequestBudget(EvaluationBudget):
    """The budget of one evaluation. `clock` returns CPU seconds of this thread: a busy machine
    fails no flag."""

    def __init__(self, project: ProjectBudget, clock: Clock = thread_time) -> None:
        self._project = project
        self._clock = clock
        self._match_left_s = MATCH_BUDGET_S
        self._match_started_s = 0.0
        self._used_s = 0.0
        self._part_started_s = clock()

    def resume(self) -> None:
        """Continue after a pause, in which other work used CPU time."""
        self._part_started_s = self._clock()

    def end_part(self) -> None:
        """End one flag, or several cheap ones. Charges the project if it took long."""
        now_s = self._clock()
        seconds = now_s - self._part_started_s
        self._part_started_s = now_s
        self._used_s += seconds
        if seconds > SLOW_FLAG_S or self._used_s > LONG_EVALUATION_S:
            self._project.spend(seconds)

    def can_evaluate(self, cost_us: int) -> bool:
        """Whether there is time for a part that can take so long."""
        if self._used_s > REQUEST_BUDGET_S:
            return False
        is_long = cost_us >= SLOW_FLAG_COST_US or self._used_s > LONG_EVALUATION_S
        return not (is_long and self._project.is_spent())

    def check(self) -> None:
        if self._clock() - self._part_started_s > FLAG_BUDGET_S:
            raise BudgetExceeded

    def begin_match(self) -> None:
        if self._match_left_s <= 0 or self._project.is_spent():
            raise BudgetExceeded
        self._match_started_s = self._clock()

    def end_match(self) -> None:
        self._match_left_s -= self._clock() - self._match_started_s


class EvaluationPacer:
    """Runs long evaluations in slices. `exceeded` counts the evaluations in which a flag failed
    because of a budget; `report` gets the project of such an evaluation, at most once a minute."""

    def __init__(
        self, report: Callable[[ProjectId], None] = lambda _: None, clock: Clock = monotonic
    ) -> None:
        self._report = report
        self._clock = clock
        self._projects: dict[ProjectId, ProjectBudget] = {}
        self._turn = asyncio.Lock()
        self.exceeded = 0

    async def run(
        self, project_id: ProjectId, parts: Iterator[int], context: EvaluationContext
    ) -> None:
        """Run all parts. Sets `context.is_refused` for those that there is no time for."""
        project = self._get_project(project_id)
        budget = context.budget
        if not isinstance(budget, RequestBudget):
            context.budget = budget = RequestBudget(project)
        budget.resume()
        started_s = perf_counter()
        is_refused = False
        for cost_us in parts:
            budget.end_part()
            if not is_refused and perf_counter() - started_s > SLICE_S:
                is_refused = not await self._pause(project)
                budget.resume()
                started_s = perf_counter()
            context.is_refused = is_refused or not budget.can_evaluate(cost_us)
        budget.end_part()
        if context.is_over_budget:
            self._note_exceeded(project_id, project)

    def _get_project(self, id: ProjectId) -> ProjectBudget:
        found = self._projects.get(id)
        if found is None:
            found = self._projects[id] = ProjectBudget(self._clock)
        return found

    async def _pause(self, project: ProjectBudget) -> bool:
        """Let other requests run. False if too many evaluations of the project are paused."""
        if project.paused >= MAX_PAUSED_PER_PROJECT:
            return False
        project.paused += 1
        try:
            async with self._turn:
                await asyncio.sleep(INTERVAL_S)
        finally:
            project.paused -= 1
        return True

    def _note_exceeded(self, project_id: ProjectId, project: ProjectBudget) -> None:
        self.exceeded += 1
        now_s = self._clock()
        if now_s - project.reported_at_s >= REPORT_INTERVAL_S:
            project.reported_at_s = now_s
            self._report(project_id)
