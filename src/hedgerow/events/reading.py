"""Queries over a project's events: written as SQL, let through the gate, run within limits.

The one way from a tree to rows: the listing, `select` and `where`, values and the query endpoint
all take it.
"""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from hedgerow.events.cohorts import Cohorts
from hedgerow.events.compile import compiled
from hedgerow.events.conditions import Moment
from hedgerow.events.gate import Gate
from hedgerow.events.store import Answer, EventReader, Limits
from hedgerow.events.surroundings import Surroundings
from hedgerow.hogql.ast import Select
from hedgerow.hogql.printer import Printed
from hedgerow.kit import jsonio
from hedgerow.kit.threads import in_daemon_thread
from hedgerow.persons.store import CohortStore
from hedgerow.projects.model import Project, ProjectId

TIMEOUT_S = 30.0
MAX_BYTES = 32 << 20
MAX_COHORTS = 10_000

Arrived = Callable[[], Awaitable[None]]

PLAIN = Limits(timeout_s=TIMEOUT_S, max_rows=0, max_bytes=MAX_BYTES)


class Reading:
    """`arrived` waits until all events that were accepted before can be found, `mirrored` the same
    for persons, groups and cohorts."""

    def __init__(
        self,
        reader: EventReader,
        cohorts: CohortStore,
        gate: Gate,
        arrived: Arrived,
        mirrored: Arrived,
    ) -> None:
        self._reader = reader
        self._cohorts = cohorts
        self._gate = gate
        self._arrived = arrived
        self._mirrored = mirrored

    async def arrived(self) -> None:
        """Until all that came before can be found, of either kind."""
        await self._arrived()
        await self._mirrored()

    async def surroundings(
        self, project: Project, now: datetime, said: Sequence[Any] = ()
    ) -> Surroundings:
        """As they are when all that came before has arrived. `said` is whatever filters and HogQL
        may ask for persons and cohorts."""
        await self._arrived()
        found: Cohorts = {}
        if any(said):
            await self._mirrored()
            if b"cohort" in jsonio.encode(said).lower():
                listed, _ = await self._cohorts.cohorts(project.id, limit=MAX_COHORTS, offset=0)
                found = {each.id: each for each in listed}
        at = Moment(now=now, zone=ZoneInfo(project.timezone))
        return Surroundings(project=project, cohorts=found, at=at)

    async def read(
        self, around: Surroundings, ask: Callable[[], Select], limits: Limits = PLAIN
    ) -> Answer:
        """The rows of what `ask` gives. It may take a while to read and to write as SQL, so that is
        done beside the event loop."""
        statement = await in_daemon_thread(lambda: compiled(ask(), around))
        return await self.run(around.project.id, statement, limits)

    async def run(
        self, project_id: ProjectId, statement: Printed, limits: Limits = PLAIN
    ) -> Answer:
        async with self._gate.entered(project_id):
            return await self._reader.read(statement.sql, statement.parameters, limits)
