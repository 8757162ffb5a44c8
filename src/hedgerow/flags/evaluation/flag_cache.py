"""The compiled flags of each requested project, kept up to date.

A periodic task checks twice a second whether the generation of a project has changed. A snapshot is
replaced as a whole, so a decision never sees a partial change.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from typing import Any

from hedgerow.flags.evaluation.snapshot import FlagSnapshot, build_snapshot
from hedgerow.flags.model import FlagDefinitions
from hedgerow.flags.store import FlagStore
from hedgerow.lib.garbage import CollectionPause, exempt_existing_objects
from hedgerow.projects.model import Project, ProjectId

# Definitions with more values are compiled in a thread, so that requests do not wait. A long text
# counts as several values, and so does a regular expression: compiling one takes up to 3 ms.
MAX_INLINE_VALUES = 1000
CHARS_PER_VALUE = 100
VALUES_PER_PATTERN = 200

MAX_COMPILING = 2

RunInThread = Callable[[Callable[[], FlagSnapshot]], Awaitable[FlagSnapshot]]


class FlagCache:
    def __init__(self, store: FlagStore, run_in_thread: RunInThread) -> None:
        self._store = store
        self._run_in_thread = run_in_thread
        self._snapshots: dict[ProjectId, FlagSnapshot] = {}
        self._projects: dict[ProjectId, Project] = {}
        self._locks: dict[ProjectId, asyncio.Lock] = {}
        # A thread that compiles takes turns with the event loop, several would take most turns.
        self._compiling = asyncio.Semaphore(MAX_COMPILING)
        # Set, and replaced by a new one, whenever a snapshot changes.
        self._changed = asyncio.Event()
        self._collection_pause = CollectionPause()

    def get_cached(self, project: Project) -> FlagSnapshot | None:
        """Return the snapshot in memory, None if there is none for the time zone of the project."""
        found = self._snapshots.get(project.id)
        if found is None or found.definitions.timezone != project.timezone:
            return None
        return found

    async def snapshot(self, project: Project) -> FlagSnapshot:
        return self.get_cached(project) or await self.refresh(project)

    async def refresh(self, project: Project) -> FlagSnapshot:
        """Return a snapshot of the definitions as they are stored now."""
        self._projects[project.id] = project
        async with self._locks.setdefault(project.id, asyncio.Lock()):
            cached = self.get_cached(project)
            stored = await self._store.generation(project.id)
            if cached is not None and stored == cached.definitions.generation:
                return cached
            with self._collection_pause.hold():
                definitions = await self._store.definitions(project.id, project.timezone)
                self._snapshots[project.id] = snapshot = await self._compile(definitions, cached)
            changed, self._changed = self._changed, asyncio.Event()
            changed.set()
            return snapshot

    async def wait_for_change(self, project: Project, seen: FlagSnapshot) -> None:
        """Wait until the snapshot of the project is another one than `seen`."""
        while self._snapshots.get(project.id) is seen:
            await self._changed.wait()

    def wait_for_any_change(self) -> Coroutine[Any, Any, Any]:
        """Wait until the snapshot of any project is replaced after this call."""
        return self._changed.wait()

    @property
    def project_ids(self) -> list[ProjectId]:
        """The projects whose flags are in memory."""
        return list(self._snapshots)

    async def refresh_changed(self) -> None:
        """Refresh the projects that have changed. A periodic task calls this."""
        if not self._snapshots:
            return
        stored = await self._store.generations()
        changed = [
            self._projects[id]
            for id, snapshot in self._snapshots.items()
            if stored.get(id, 0) != snapshot.definitions.generation
        ]
        # One project that cannot be loaded must not block the others.
        refreshing = (self.refresh(project) for project in changed)
        for result in await asyncio.gather(*refreshing, return_exceptions=True):
            if isinstance(result, BaseException):
                raise result

    async def refresh_projects(self, ids: Iterable[ProjectId]) -> None:
        """Refresh those of these projects whose flags are in memory."""
        for id in ids:
            if id in self._snapshots:
                await self.refresh(self._projects[id])

    async def _compile(
        self, definitions: FlagDefinitions, before: FlagSnapshot | None
    ) -> FlagSnapshot:
        if _is_small(definitions):
            return build_snapshot(definitions, before)
        async with self._compiling:
            snapshot = await self._run_in_thread(lambda: build_snapshot(definitions, before))
        if before is None or snapshot.predicates is not before.predicates:
            # All flags were compiled, and may be millions of objects.
            exempt_existing_objects()
        return snapshot


def _is_small(definitions: FlagDefinitions) -> bool:
    """Count values up to the limit, not further."""
    waiting: list[Any] = [flag.filters for flag in definitions.flags]
    waiting += [cohort.definition for cohort in definitions.cohorts]
    seen = 0
    while waiting and seen <= MAX_INLINE_VALUES:
        value = waiting.pop()
        seen += 1
        if isinstance(value, str):
            seen += len(value) // CHARS_PER_VALUE
        elif isinstance(value, Mapping):
            seen += VALUES_PER_PATTERN * (value.get("operator") in ("regex", "not_regex"))
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
    return seen <= MAX_INLINE_VALUES
