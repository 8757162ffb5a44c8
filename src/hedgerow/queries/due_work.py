"""Work that is due, such as the checks of alerts: a few at the same time, one of each project.
Projects take turns, so that none waits for the many or slow ones of another.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection

from hedgerow.lib.workers.fair_queue import Turns
from hedgerow.lib.workers.sender import work_for
from hedgerow.projects.model import ProjectId, name_sender

# In one process, of each kind of work. Queries of requests keep a place.
MAX_RUNNING = 2
# While something runs, how often to look for what became due.
LOOK_INTERVAL_S = 1.0

ListProjects = Callable[[], Awaitable[Collection[ProjectId]]]
# Does the next piece of work of a project, unless another process has begun it.
RunNext = Callable[[ProjectId], Awaitable[None]]


class DueWork:
    """`list_projects` returns the projects for which something is due that no process does."""

    def __init__(
        self, list_projects: ListProjects, run_next: RunNext, *, max_running: int = MAX_RUNNING
    ) -> None:
        self._list_projects = list_projects
        self._run_next = run_next
        self._max_running = max_running
        self._turns = Turns[ProjectId]()
        self._running: dict[ProjectId, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Do all that is due, and what becomes due meanwhile. After an error what runs goes on to
        its end, nothing else begins, and the error is raised."""
        try:
            while True:
                await self._start()
                if not self._running:
                    return
                await self._wait()
        finally:
            await self._end()

    async def _start(self) -> None:
        if len(self._running) >= self._max_running:
            return
        waiting = [id for id in await self._list_projects() if id not in self._running]
        for project_id in self._turns.sort(waiting)[: self._max_running - len(self._running)]:
            self._running[project_id] = asyncio.create_task(self._run_timed(project_id))

    async def _wait(self) -> None:
        done, _ = await asyncio.wait(
            self._running.values(),
            timeout=LOOK_INTERVAL_S,
            return_when=asyncio.FIRST_COMPLETED,
        )
        for project_id in [id for id, task in self._running.items() if task in done]:
            self._running.pop(project_id).result()

    async def _end(self) -> None:
        """Wait for what runs after an error, or stop it if this is cancelled."""
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            for each in self._running.values():
                each.cancel()
        await asyncio.gather(*self._running.values(), return_exceptions=True)
        self._running.clear()

    async def _run_timed(self, project_id: ProjectId) -> None:
        began = time.monotonic()
        try:
            with work_for(name_sender(project_id)):
                await self._run_next(project_id)
        finally:
            self._turns.charge(project_id, time.monotonic() - began)
