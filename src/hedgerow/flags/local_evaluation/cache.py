"""The encoded responses for SDKs that evaluate flags locally, cached until a definition changes."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from hedgerow.flags.evaluation.flag_cache import FlagCache
from hedgerow.flags.evaluation.snapshot import FlagSnapshot
from hedgerow.flags.local_evaluation.definitions import SdkProfile, build_local_definitions
from hedgerow.lib import jsonio
from hedgerow.projects.model import Project, ProjectId


class CachedBody(msgspec.Struct, frozen=True):
    """`etag` depends on the body alone, so it is the same in every process."""

    body: bytes
    etag: str


# The generation and the time zone of the definitions.
Version = tuple[int, str]
RunInThread = Callable[[Callable[[], CachedBody]], Awaitable[CachedBody]]


class LocalEvaluationCache:
    """Most SDKs poll unchanged definitions; such requests need neither queries nor encoding."""

    def __init__(self, flag_cache: FlagCache, run_in_thread: RunInThread) -> None:
        self._flag_cache = flag_cache
        self._run_in_thread = run_in_thread
        # With the version of the snapshot; holding the snapshot itself would take too much memory.
        self._bodies: dict[tuple[ProjectId, SdkProfile], tuple[Version, CachedBody]] = {}
        self._lock = asyncio.Lock()

    def get_cached(self, project: Project, profile: SdkProfile) -> CachedBody | None:
        snapshot = self._flag_cache.get_cached(project)
        cached = self._bodies.get((project.id, profile))
        if snapshot is None or cached is None or cached[0] != _get_version(snapshot):
            return None
        return cached[1]

    async def get(self, project: Project, profile: SdkProfile) -> CachedBody:
        found = self.get_cached(project, profile)
        if found is not None:
            return found
        async with self._lock:
            snapshot = await self._flag_cache.snapshot(project)
            found = self.get_cached(project, profile)
            if found is None:
                definitions = snapshot.definitions
                found = await self._run_in_thread(
                    lambda: _build_body(build_local_definitions(definitions, profile))
                )
                self._bodies[project.id, profile] = (_get_version(snapshot), found)
            return found


def _get_version(snapshot: FlagSnapshot) -> Version:
    return (snapshot.definitions.generation, snapshot.definitions.timezone)


def _build_body(definitions: dict[str, Any]) -> CachedBody:
    body = jsonio.encode(definitions)
    return CachedBody(body, f'"{hashlib.sha256(body).hexdigest()[:32]}"')
