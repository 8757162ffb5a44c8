"""Follows the definitions of one source: by its stream, and by polling while there is no stream."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog

from hedgerow.edge.copies import DocumentCopies, UnusableCopy
from hedgerow.edge.sources import EdgeSource
from hedgerow.edge.state import EdgeState
from hedgerow.flags.edge.document import EdgeDocument, InvalidDocument, decode_document
from hedgerow.lib.threads import run_in_thread
from hedgerow.outbound.origin_client import OriginClient, OriginRefused, OriginUnreachable
from hedgerow.projects.model import Project

FIRST_PAUSE_S = 0.25

_log = structlog.get_logger("hedgerow.edge")

# Compiles the definitions of a project and accepts its keys.
Publish = Callable[[Project], Awaitable[None]]


@dataclass(slots=True)
class SourceStatus:
    """For the metrics. The times are Unix times, None for never."""

    confirmed_at_s: float | None = None
    is_connected: bool = False
    is_refused: bool = False


class Follower:
    """`publish` runs after each change. `on_contact` runs when the origin answers."""

    def __init__(  # noqa: PLR0913 - collaborators
        self,
        source: EdgeSource,
        client: OriginClient,
        state: EdgeState,
        copies: DocumentCopies,
        *,
        publish: Publish,
        on_contact: Callable[[], None],
        poll_interval_s: float,
    ) -> None:
        self.source = source
        self.status = SourceStatus()
        # Set once there are definitions, or the origin has refused the key.
        self.first_answer = asyncio.Event()
        self.refusal = ""
        self._client = client
        self._state = state
        self._copies = copies
        self._publish = publish
        self._on_contact = on_contact
        self._poll_interval_s = poll_interval_s
        self._etag = ""
        self._problem = ""

    async def start_from_copy(self) -> None:
        """Hold the last document of the disk, if there is one."""
        try:
            found = await run_in_thread(lambda: self._copies.load(self.source))
        except UnusableCopy as error:
            _log.error("the copy of the definitions cannot be used", reason=str(error))
            return
        if found is None:
            return
        document, copy = found
        self.status.confirmed_at_s = copy.saved_at_s
        await self._hold(document, copy.etag)
        _log.info(
            "definitions from the disk",
            project_id=document.project.id,
            age_s=round(time.time() - copy.saved_at_s),
        )

    async def run(self) -> None:
        """Follow the source until cancelled."""
        pause_s = FIRST_PAUSE_S
        while True:
            try:
                await self._fetch()
                pause_s = FIRST_PAUSE_S
                await self._follow_stream()
                self._report("the stream has ended", is_serious=False)
            except OriginUnreachable as error:
                self._report(str(error), is_serious=False)
            except OriginRefused as error:
                await self._refuse(str(error))
                pause_s = self._poll_interval_s
            self.status.is_connected = False
            # Edge processes of one origin must not return all at once.
            await asyncio.sleep(pause_s * random.uniform(0.5, 1.0))  # noqa: S311 - no secret
            pause_s = min(2 * pause_s, self._poll_interval_s)

    async def _follow_stream(self) -> None:
        async for etag in self._client.stream(self.source.stream_path, self.source.key):
            self.status.is_connected = True
            if etag != self._etag:
                await self._fetch()

    async def _fetch(self) -> None:
        found = await self._client.fetch(self.source.definitions_path, self.source.key, self._etag)
        self._on_contact()
        if self._problem:
            _log.info("the origin answers again", key=self.source.mask)
            self._problem = ""
        self.status.is_refused = False
        self._state.refuse_key(self.source, is_refused=False)
        self.status.confirmed_at_s = time.time()
        if found is None:
            return
        body, etag = found
        try:
            document = await run_in_thread(lambda: decode_document(body))
        except InvalidDocument as error:
            raise OriginUnreachable(f"definitions that cannot be read: {error}") from None
        await self._hold(document, etag)
        await self._save(body, etag)

    async def _hold(self, document: EdgeDocument, etag: str) -> None:
        project = self._state.replace_document(self.source, document, self.source.secret_hashes)
        await self._publish(project)
        self._etag = etag
        self.first_answer.set()

    async def _save(self, body: bytes, etag: str) -> None:
        now_s = time.time()
        try:
            await run_in_thread(lambda: self._copies.save(self.source, body, etag, now_s))
        except OSError as error:
            # It answers from memory. Only a start without the origin would use the older copy.
            _log.error("cannot save the definitions", reason=error.strerror or str(error))

    async def _refuse(self, reason: str) -> None:
        """Flags are evaluated with the last definitions. The key opens nothing here any more."""
        self._report(f"it refuses the key: {reason}", is_serious=True)
        self.refusal = reason
        self.status.is_refused = True
        self._state.refuse_key(self.source, is_refused=True)
        project = self._state.get_project(self.source)
        if project is not None:
            await self._publish(project)
        self.first_answer.set()

    def _report(self, problem: str, *, is_serious: bool) -> None:
        """Log each problem once, not with each attempt."""
        if problem != self._problem:
            self._problem = problem
            log = _log.error if is_serious else _log.warning
            log("no definitions from the origin", key=self.source.mask, reason=problem)
