"""The surveys of every project, in memory, with the encoded payload for SDKs. Pages request it
often, and surveys seldom change.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from hedgerow.flags.model import Flag, FlagId
from hedgerow.projects.model import ProjectId
from hedgerow.surveys.model import SurveyWithFlags
from hedgerow.surveys.payload import encode_payload
from hedgerow.surveys.store import Generation, StoredSurveys, SurveyStore


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedSurveys:
    """All surveys of a project at one generation, newest first. `body` is the payload for SDKs."""

    generation: Generation
    surveys: Sequence[SurveyWithFlags]
    body: bytes
    has_running: bool
    owned_flags: frozenset[FlagId]

    def find(self, id: str) -> SurveyWithFlags | None:
        return next((found for found in self.surveys if found.survey.id == id), None)


def build_cached_surveys(stored: StoredSurveys) -> CachedSurveys:
    return CachedSurveys(
        generation=stored.generation,
        surveys=stored.surveys,
        body=encode_payload(stored.surveys),
        has_running=any(found.survey.is_running for found in stored.surveys),
        owned_flags=frozenset(id for found in stored.surveys for id in found.owned_ids),
    )


NO_SURVEYS = build_cached_surveys(StoredSurveys(generation=(0, 0), surveys=()))

RunElsewhere = Callable[[Callable[[], CachedSurveys]], Awaitable[CachedSurveys]]


class SurveyCache:
    """Keeps surveys up to date: each process polls for changes twice a second."""

    def __init__(self, store: SurveyStore, run_elsewhere: RunElsewhere) -> None:
        self._store = store
        self._run_elsewhere = run_elsewhere
        self._cached: dict[ProjectId, CachedSurveys] = {}
        self._locks: dict[ProjectId, asyncio.Lock] = {}

    def get(self, project_id: ProjectId) -> CachedSurveys:
        return self._cached.get(project_id, NO_SURVEYS)

    def has_running(self, project_id: ProjectId) -> bool:
        return self.get(project_id).has_running

    def find_linked(self, flag: Flag) -> list[SurveyWithFlags]:
        """Return the surveys that are shown only where this flag is on."""
        surveys = self.get(flag.project_id).surveys
        return [found for found in surveys if found.survey.linked_flag_id == flag.id]

    def get_all(self) -> Mapping[ProjectId, CachedSurveys]:
        return self._cached

    async def refresh(self, project_id: ProjectId) -> CachedSurveys:
        """Load the stored surveys if they changed."""
        async with self._locks.setdefault(project_id, asyncio.Lock()):
            if await self._store.generation(project_id) == self.get(project_id).generation:
                return self.get(project_id)
            stored = await self._store.surveys(project_id)
            self._cached[project_id] = cached = await self._run_elsewhere(
                lambda: build_cached_surveys(stored)
            )
            return cached

    async def refresh_changed(self) -> None:
        """Refresh the projects whose surveys changed. A background task calls it."""
        for id, generation in (await self._store.generations()).items():
            if self.get(id).generation != generation:
                await self.refresh(id)
