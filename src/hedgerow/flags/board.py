"""The compiled flags of every project that was asked for, kept up to date.

Each process asks twice a second whether a project's generation has moved. A snapshot is replaced
whole, so a decision never sees half of a change.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from hedgerow.flags.model import Definitions
from hedgerow.flags.snapshot import Snapshot, snapshot_of
from hedgerow.flags.store import FlagStore
from hedgerow.projects.model import Project, ProjectId

# Compiling more than so many values would keep requests waiting, so another thread does it. A long
# text counts as several.
INLINE_VALUES = 1000
LONG_TEXT = 100

Elsewhere = Callable[[Callable[[], Snapshot]], Awaitable[Snapshot]]


class FlagCache:
    def __init__(self, store: FlagStore, elsewhere: Elsewhere) -> None:
        self._store = store
        self._elsewhere = elsewhere
        self._snapshots: dict[ProjectId, Snapshot] = {}
        self._projects: dict[ProjectId, Project] = {}
        self._reading: dict[ProjectId, asyncio.Lock] = {}
        # Set, and another put in its place, when any snapshot is replaced.
        self._news = asyncio.Event()

    def get_cached(self, project: Project) -> Snapshot | None:
        """The snapshot in memory, if it is one for the project's present time zone."""
        found = self._snapshots.get(project.id)
        if found is None or found.definitions.timezone != project.timezone:
            return None
        return found

    async def snapshot(self, project: Project) -> Snapshot:
        return self.get_cached(project) or await self.refreshed(project)

    async def refreshed(self, project: Project) -> Snapshot:
        """The snapshot of what is stored now."""
        self._projects[project.id] = project
        async with self._reading.setdefault(project.id, asyncio.Lock()):
            at_hand = self.get_cached(project)
            stored = await self._store.generation(project.id)
            if at_hand is not None and stored == at_hand.definitions.generation:
                return at_hand
            definitions = await self._store.definitions(project.id, project.timezone)
            self._snapshots[project.id] = made = await self._compiled(definitions, at_hand)
            news, self._news = self._news, asyncio.Event()
            news.set()
            return made

    async def changed(self, project: Project, seen: Snapshot) -> None:
        """Waits until the project's snapshot is another than the one that was seen."""
        while self._snapshots.get(project.id) is seen:
            await self._news.wait()

    async def watch(self) -> None:
        """One turn of the background loop."""
        if not self._snapshots:
            return
        stored = await self._store.generations()
        changed = [
            self._projects[id]
            for id, snapshot in self._snapshots.items()
            if stored.get(id, 0) != snapshot.definitions.generation
        ]
        # A project that cannot be read keeps nobody else's flags from being refreshed.
        refreshing = (self.refreshed(project) for project in changed)
        for result in await asyncio.gather(*refreshing, return_exceptions=True):
            if isinstance(result, BaseException):
                raise result

    async def _compiled(self, definitions: Definitions, before: Snapshot | None) -> Snapshot:
        if _is_small(definitions):
            return snapshot_of(definitions, before)
        return await self._elsewhere(lambda: snapshot_of(definitions, before))


def _is_small(definitions: Definitions) -> bool:
    """Looks only so far as to know."""
    waiting: list[Any] = [flag.filters for flag in definitions.flags]
    waiting += [cohort.definition for cohort in definitions.cohorts]
    seen = 0
    while waiting and seen <= INLINE_VALUES:
        value = waiting.pop()
        seen += 1
        if isinstance(value, str):
            seen += len(value) // LONG_TEXT
        elif isinstance(value, Mapping):
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
    return seen <= INLINE_VALUES
