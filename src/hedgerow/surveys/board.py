"""The surveys of every project that has any, kept up to date, with what pages are told of them as
bytes. Pages ask again and again, and surveys seldom change.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from hedgerow.flags.model import Flag, FlagId
from hedgerow.projects.model import ProjectId
from hedgerow.surveys.model import Flagged
from hedgerow.surveys.store import Generation, Stored, SurveyStore
from hedgerow.surveys.told import answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """All surveys of a project, newest first, at one generation. `body` is what pages are told."""

    generation: Generation
    surveys: Sequence[Flagged]
    body: bytes
    any_runs: bool
    owned_flags: frozenset[FlagId]

    def find(self, id: str) -> Flagged | None:
        return next((found for found in self.surveys if found.survey.id == id), None)


def shown(stored: Stored) -> Shown:
    return Shown(
        generation=stored.generation,
        surveys=stored.surveys,
        body=answer(stored.surveys),
        any_runs=any(found.survey.is_running for found in stored.surveys),
        owned_flags=frozenset(id for found in stored.surveys for id in found.owned_ids),
    )


NONE = shown(Stored(generation=(0, 0), surveys=()))

Elsewhere = Callable[[Callable[[], Shown]], Awaitable[Shown]]


class SurveyBoard:
    """Each process asks twice a second whether surveys have changed."""

    def __init__(self, store: SurveyStore, elsewhere: Elsewhere) -> None:
        self._store = store
        self._elsewhere = elsewhere
        self._shown: dict[ProjectId, Shown] = {}
        self._reading: dict[ProjectId, asyncio.Lock] = {}

    def of(self, project_id: ProjectId) -> Shown:
        return self._shown.get(project_id, NONE)

    def any_runs(self, project_id: ProjectId) -> bool:
        return self.of(project_id).any_runs

    def linked_to(self, flag: Flag) -> list[Flagged]:
        """The surveys that are shown only where this flag is on."""
        surveys = self.of(flag.project_id).surveys
        return [found for found in surveys if found.survey.linked_flag_id == flag.id]

    def all(self) -> Mapping[ProjectId, Shown]:
        return self._shown

    async def refreshed(self, project_id: ProjectId) -> Shown:
        """What is stored now."""
        async with self._reading.setdefault(project_id, asyncio.Lock()):
            if await self._store.generation(project_id) == self.of(project_id).generation:
                return self.of(project_id)
            stored = await self._store.surveys(project_id)
            self._shown[project_id] = made = await self._elsewhere(lambda: shown(stored))
            return made

    async def watch(self) -> None:
        """One turn of the background loop."""
        for id, generation in (await self._store.generations()).items():
            if self.of(id).generation != generation:
                await self.refreshed(id)
