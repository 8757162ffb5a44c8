"""What the readers of this owner hold. A change by the API is acknowledged once all of them have
it, so that no process answers with an old flag afterwards.
"""

import asyncio
import os
import secrets
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic

import msgspec
import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hedgerow.errors import Unavailable
from hedgerow.flags.edge.document import OwnedProject
from hedgerow.flags.evaluation.flag_cache import FlagCache

# A reader that has not taken over a change by then is replaced.
CHANGE_TIMEOUT_S = 5.0
# Readers find an owner that has restarted within this time.
RECONNECT_TIMEOUT_S = 2.0
# Between a request to replace a reader and its end.
END_TIMEOUT_S = 5.0
# Readers that have ended are not waited for.
PROCESS_POLL_INTERVAL_S = 0.02
# How long a reader waits for the next change before it asks again.
FOLLOW_TIMEOUT_S = 5.0
# Changes of flags arrive at once. Keys and SDK configurations are compared this often.
POLL_INTERVAL_S = 0.25
UNCHANGING_METHODS = frozenset(("GET", "HEAD", "OPTIONS"))

_log = structlog.get_logger("hedgerow")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderProcess:
    """`number` is its place among the processes of the supervisor."""

    number: int
    pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """The encoded list of projects and their versions."""

    body: bytes
    etag: str


class Readers:
    """`refresh` loads what other processes have stored, which commands do."""

    def __init__(
        self,
        list_projects: Callable[[], list[OwnedProject]],
        flag_cache: FlagCache,
        refresh: Callable[[], Awaitable[None]],
        stopping: asyncio.Event,
    ) -> None:
        self._list_projects = list_projects
        self._flag_cache = flag_cache
        self._refresh = refresh
        self._stopping = stopping
        # ETags of another owner mean nothing here.
        self._run = secrets.token_hex(8)
        self._version = 0
        self._body = b""
        # The version that each of them holds.
        self._held: dict[ReaderProcess, int] = {}
        self._missing: set[int] = set()
        self._missing_until = 0.0
        # Set, and replaced by new ones: when there is another version, and when a reader holds one.
        self._changed = asyncio.Event()
        self._confirmed = asyncio.Event()
        # Asks the supervisor for another process.
        self.replace: Callable[[ReaderProcess], None] = lambda _: None

    def await_reconnection(self, numbers: Iterable[int]) -> None:
        """This owner replaces another one, whose readers have definitions and come soon."""
        self._missing = set(numbers)
        self._missing_until = monotonic() + RECONNECT_TIMEOUT_S

    async def follow(self, reader: ReaderProcess, seen: str) -> Listing | None:
        """Return the projects once they differ from those with the ETag that the reader holds.
        Return None after a while, and when the reader is found to be current for the first time."""
        listing = self._update()
        is_new = reader not in self._held
        if listing.etag != seen and is_new:
            return listing
        # Also if there is a newer one by now: a change may wait for this one.
        self._held[reader] = self._parse_version(seen)
        self._missing.discard(reader.number)
        confirmed, self._confirmed = self._confirmed, asyncio.Event()
        confirmed.set()
        if listing.etag != seen:
            return listing
        if is_new:
            return None
        deadline = monotonic() + FOLLOW_TIMEOUT_S
        while self._update().etag == seen:
            if monotonic() > deadline or self._stopping.is_set():
                return None
            await self._wait_for_change()
        return self._update()

    async def wait_until_current(self) -> None:
        """Return once every reader holds all that is stored now. One that takes too long is
        replaced."""
        while self._missing and (left_s := self._missing_until - monotonic()) > 0:
            await self._wait_for_readers(left_s)
        self._missing.clear()
        if not self._held:
            return
        with suppress(Unavailable):  # then readers get what this process has
            await self._refresh()
        self._update()
        version, deadline = self._version, monotonic() + CHANGE_TIMEOUT_S
        while late := self._list_late(version):
            if monotonic() > deadline:
                await asyncio.gather(*map(self._replace, late))
                return
            await self._wait_for_readers(PROCESS_POLL_INTERVAL_S)

    def _list_late(self, version: int) -> list[ReaderProcess]:
        late = [each for each, held in self._held.items() if held < version]
        for each in [each for each in late if not _is_running(each.pid)]:
            del self._held[each]
            late.remove(each)
        return late

    def _update(self) -> Listing:
        body = msgspec.json.encode(self._list_projects())
        if body != self._body:
            self._body = body
            self._version += 1
            changed, self._changed = self._changed, asyncio.Event()
            changed.set()
        return Listing(body=body, etag=f'"{self._run}-{self._version}"')

    def _parse_version(self, etag: str) -> int:
        run, _, version = etag.strip('"').partition("-")
        return int(version) if run == self._run else 0

    async def _wait_for_readers(self, timeout_s: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._confirmed.wait(), timeout_s)

    async def _wait_for_change(self) -> None:
        waiting = [
            asyncio.ensure_future(self._flag_cache.wait_for_any_change()),
            asyncio.ensure_future(self._changed.wait()),
            asyncio.ensure_future(self._stopping.wait()),
        ]
        try:
            await asyncio.wait(
                waiting, timeout=POLL_INTERVAL_S, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            for each in waiting:
                each.cancel()

    async def _replace(self, reader: ReaderProcess) -> None:
        _log.warning("a reader does not take over a change: replacing it", number=reader.number)
        self.replace(reader)
        deadline = monotonic() + END_TIMEOUT_S
        while _is_running(reader.pid) and monotonic() < deadline:
            await asyncio.sleep(PROCESS_POLL_INTERVAL_S)
        self._held.pop(reader, None)


class AcknowledgedApi:
    """The API, which sends the response to a change once the readers have it."""

    def __init__(self, api: ASGIApp, readers: Readers) -> None:
        self._api = api
        self._readers = readers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_when_current(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] < 400:
                await self._readers.wait_until_current()
            await send(message)

        is_change = scope["type"] == "http" and scope["method"] not in UNCHANGING_METHODS
        await self._api(scope, receive, send_when_current if is_change else send)


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
