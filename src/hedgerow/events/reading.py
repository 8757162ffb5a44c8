"""Queries over a project's events: written as SQL, let through the gate, run within limits.

The one way from a tree to rows: the listing, `select` and `where`, values and the query endpoint
all take it.
"""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from hedgerow.events.cohorts import Cohorts
from hedgerow.events.compile import AS_ASKED, Text, blamed, compiled
from hedgerow.events.conditions import Moment
from hedgerow.events.gate import Gate
from hedgerow.events.store import Answer, EventReader, Limits
from hedgerow.events.surroundings import Surroundings
from hedgerow.hogql.ast import Select
from hedgerow.hogql.errors import HogQLError
from hedgerow.hogql.printer import Limits as RowLimits
from hedgerow.hogql.printer import Printed
from hedgerow.lib import jsonio
from hedgerow.lib.threads import in_daemon_thread
from hedgerow.persons.store import CohortStore
from hedgerow.projects.model import Project

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
        self,
        around: Surroundings,
        ask: Callable[[], Select],
        limits: Limits = PLAIN,
        texts: Sequence[Text] = (),
    ) -> Answer:
        """The rows of what `ask` gives. `texts` are the HogQL in it, for errors to point at."""
        return await self.run(around, await self.compile(around, ask, texts=texts), limits)

    async def compile(
        self,
        around: Surroundings,
        ask: Callable[[], Select],
        rows: RowLimits = AS_ASKED,
        texts: Sequence[Text] = (),
    ) -> Printed:
        """As SQL. To read and to write it may take a while, so it is done beside the event loop."""

        def work() -> Printed:
            try:
                return compiled(ask(), around, rows)
            except HogQLError as error:
                raise blamed(error, texts, around) from None

        return await in_daemon_thread(work)

    async def run(self, around: Surroundings, printed: Printed, limits: Limits = PLAIN) -> Answer:
        async with self._gate.entered(around.project.id):
            return await self._reader.read(printed.sql, printed.parameters, limits)
