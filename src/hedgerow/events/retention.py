"""Events that are older than their project keeps them are deleted, once a day."""

from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime, time, timedelta

from hedgerow.events.delete import Chosen, Deletion
from hedgerow.lib.clock import Clock
from hedgerow.projects.activity import SYSTEM
from hedgerow.projects.model import Project


class Retention:
    def __init__(
        self,
        deletion: Deletion,
        projects: Callable[[], Awaitable[Iterable[Project]]],
        clock: Clock,
    ) -> None:
        self._deletion = deletion
        self._projects = projects
        self._clock = clock

    async def enforce(self) -> None:
        """One turn of the background loop. Only the first of a day finds anything to do."""
        now = self._clock()
        for project in await self._projects():
            if project.retention_days is not None:
                chosen = Chosen(before=_midnight(now) - timedelta(days=project.retention_days))
                await self._deletion.delete(project.id, chosen, SYSTEM, now)


def _midnight(moment: datetime) -> datetime:
    return datetime.combine(moment.date(), time.min, moment.tzinfo)
