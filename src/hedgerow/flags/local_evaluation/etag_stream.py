"""Stream the ETag of the local evaluation definitions to SDKs whenever it changes."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from hedgerow.errors import Throttled
from hedgerow.flags.evaluation.flag_cache import FlagCache
from hedgerow.flags.evaluation.snapshot import FlagSnapshot
from hedgerow.flags.local_evaluation.cache import LocalEvaluationCache
from hedgerow.flags.local_evaluation.definitions import SdkProfile
from hedgerow.projects.model import Project, ProjectId

# Proxies close silent connections. Each heartbeat also checks that the key is still valid.
HEARTBEAT_S = 15.0
RETRY_AFTER_S = 30

# Returns the ETag of what a stream reports about a project.
GetEtag = Callable[[Project], Awaitable[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamLimits:
    """Open streams per process. A listener costs a connection and a few kilobytes."""

    total: int
    per_project: int
    per_key: int
    per_address: int


# One key cannot take all streams of its project, nor of all projects. Another key at the same
# address, which may be a proxy, still gets some, and so does another address.
SERVER_STREAMS = StreamLimits(total=1000, per_project=100, per_key=50, per_address=75)
# Pages use one public key. One address cannot take all streams of its project.
PAGE_STREAMS = StreamLimits(total=2000, per_project=1000, per_key=1000, per_address=100)


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """The holder of a stream. `key` identifies the API key among those of all projects, `address`
    the client."""

    project: Project
    key: str
    address: str


class EtagStreams:
    """The open streams. All of them end when `stopping` is set."""

    def __init__(
        self,
        flag_cache: FlagCache,
        local_evaluation_cache: LocalEvaluationCache,
        stopping: asyncio.Event,
        limits: StreamLimits = SERVER_STREAMS,
    ) -> None:
        self._limits = limits
        self._flag_cache = flag_cache
        self._local_evaluation_cache = local_evaluation_cache
        self._stopping = stopping
        self._total = 0
        self._by_project: Counter[ProjectId] = Counter()
        self._by_key: Counter[str] = Counter()
        self._by_address: Counter[tuple[ProjectId, str]] = Counter()

    @contextmanager
    def hold(self, listener: Listener) -> Iterator[None]:
        """Count a stream. Raises Throttled if the project, the key or the address has too many."""
        self._check_capacity(listener)
        self._count(listener, 1)
        try:
            yield
        finally:
            self._count(listener, -1)

    def _check_capacity(self, listener: Listener) -> None:
        id, limits = listener.project.id, self._limits
        if (
            self._total >= limits.total
            or self._by_project[id] >= limits.per_project
            or self._by_key[listener.key] >= limits.per_key
            or self._by_address[id, listener.address] >= limits.per_address
        ):
            raise Throttled(RETRY_AFTER_S)

    def _count(self, listener: Listener, change: int) -> None:
        id = listener.project.id
        self._total += change
        self._by_project[id] += change
        self._by_key[listener.key] += change
        self._by_address[id, listener.address] += change
        # Addresses are many: keep no zeros.
        self._by_key += Counter()
        self._by_address += Counter()

    async def get_sdk_etag(self, project: Project) -> str:
        """Return the ETag of the definitions for current SDKs."""
        return (await self._local_evaluation_cache.get(project, SdkProfile.CURRENT)).etag

    async def get_generation_etag(self, project: Project) -> str:
        """Return an ETag that changes with any definition. Edge processes count changes for
        themselves, so theirs differ."""
        generation = (await self._flag_cache.snapshot(project)).definitions.generation
        return f'"{generation}"'

    async def stream_etags(
        self,
        project: Project,
        is_authorized: Callable[[], Awaitable[bool]],
        get_etag: GetEtag,
        last: str = "",
    ) -> AsyncIterator[str | None]:
        """Yield the ETag at once unless it is `last`, so that no change is missed, and again after
        each change. Yields None as a heartbeat. Ends when `is_authorized` returns false."""
        while not self._stopping.is_set():
            seen = await self._flag_cache.snapshot(project)
            etag = await get_etag(project)
            if etag != last:
                last = etag
                yield etag
            has_changed = await self._wait_for_change(project, seen)
            if not await is_authorized():
                return
            if not has_changed:
                yield None

    async def _wait_for_change(self, project: Project, seen: FlagSnapshot) -> bool:
        """Return False if nothing changes until the next heartbeat."""
        waiting = [
            asyncio.ensure_future(self._flag_cache.wait_for_change(project, seen)),
            asyncio.ensure_future(self._stopping.wait()),
        ]
        try:
            done, _ = await asyncio.wait(
                waiting, timeout=HEARTBEAT_S, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            for each in waiting:
                each.cancel()
        return bool(done)
