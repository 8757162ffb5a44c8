"""Queries at the terminal, where no service has the events open, joined with their storage."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from hedgerow.app.events import OpenedWhenNeeded, event_place
from hedgerow.app.mirror import join_mirror
from hedgerow.app.reading import join_reading
from hedgerow.app.state import State, opened_state
from hedgerow.lib.clock import utc_now
from hedgerow.projects.model import Project
from hedgerow.queries.hogql_query import HogQLQueries, HogQLQuery
from hedgerow.settings import Settings

COPY_AT_MOST_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryRooms:
    state: State
    hogql: HogQLQueries

    async def ask(self, project: Project, text: str, values: Mapping[str, Any]) -> list[list[Any]]:
        asked = HogQLQuery(query=text, values=values, filters={}, explain=False)
        ran = await self.hogql.run(project, asked, utc_now())
        rows: list[list[Any]] = msgspec.json.decode(bytes(ran.results))
        return rows


@asynccontextmanager
async def opened_queries(settings: Settings) -> AsyncIterator[QueryRooms]:
    """For verbs that read the events of an installation; Unready if another process has them."""
    events = OpenedWhenNeeded(event_place(settings))
    async with opened_state(settings) as state:
        try:
            await events.opened()
            mirrored = partial(
                join_mirror(state.database, events).arrived, at_most_s=COPY_AT_MOST_S
            )
            reading = join_reading(state.database, events, _at_once, mirrored).reading
            yield QueryRooms(state=state, hogql=HogQLQueries(reading))
        finally:
            await events.close()


async def _at_once() -> None:
    """Nothing is known here of what others have accepted."""
