"""`/capture`, `/e`, `/track`, `/engage`, `/batch`, `/i/v0/e` and `/i/v1/analytics/events`: events
come in. Plain handlers in front of FastAPI.
"""

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any
from urllib.parse import parse_qs

from starlette.types import Receive, Scope

from hedgerow.http.origin import Address, Origins, header
from hedgerow.http.payload.forms import sent_at_ms
from hedgerow.http.payload.reader import PayloadReader
from hedgerow.http.project_key import project_of
from hedgerow.http.reply import JSON_TYPE, Reply, json_reply, reply
from hedgerow.http.request_headers import bearer
from hedgerow.http.trace import Trace
from hedgerow.ingestion.accept import Capture
from hedgerow.ingestion.model import Batch
from hedgerow.ingestion.per_event import as_batch, results
from hedgerow.ingestion.reading import NothingAccepted, read_batch
from hedgerow.lib.clock import Clock
from hedgerow.lib.randomness import Randomness
from hedgerow.projects.directory import Directory

# Older and newer libraries send events to different paths; all of them are alike.
EVENT_PATHS = ("/capture", "/e", "/track", "/batch", "/i/v0/e", "/i/v0/ai/batch")
# A request may be wrong a million times; its sender learns as much from the first of these.
REJECTED_TOLD = 1000
ACCEPTED = reply(200, b'{"status":1}', JSON_TYPE)
ACCEPTED_BEACON = reply(204, b"")


class CaptureDoor:
    """The handlers, with what they work with."""

    def __init__(
        self,
        directory: Directory,
        capture: Capture,
        payloads: PayloadReader,
        origins: Origins,
        clock: Clock,
    ) -> None:
        self._directory = directory
        self._capture = capture
        self._payloads = payloads
        self._origins = origins
        self._clock = clock
        self._randomness = Randomness()

    async def events(self, scope: Scope, receive: Receive, trace: Trace) -> Reply:
        return await self._take(scope, receive, trace, is_engage=False)

    async def engage(self, scope: Scope, receive: Receive, trace: Trace) -> Reply:
        return await self._take(scope, receive, trace, is_engage=True)

    async def per_event(self, scope: Scope, receive: Receive, trace: Trace) -> Reply:
        """Each event is answered by itself, so that nothing is sent again for another's fault."""
        as_older = partial(
            as_batch,
            token=bearer(scope),
            library=header(scope, b"posthog-sdk-info")[:200],
            sent_at=header(scope, b"posthog-request-timestamp"),
        )
        batch, refusal = await self._accepted(scope, receive, trace, as_older)
        told = results(batch)
        if refusal is not None and not told:
            raise refusal
        return json_reply(200, {"results": told})

    async def _take(
        self, scope: Scope, receive: Receive, trace: Trace, *, is_engage: bool
    ) -> Reply:
        batch, refusal = await self._accepted(scope, receive, trace, is_engage=is_engage)
        if refusal is not None:
            raise refusal
        if batch.rejected:
            return json_reply(200, {"status": 1, "rejected": batch.rejected[:REJECTED_TOLD]})
        query: bytes = scope["query_string"]
        return ACCEPTED_BEACON if query and _is_beacon(query) else ACCEPTED

    async def _accepted(
        self,
        scope: Scope,
        receive: Receive,
        trace: Trace,
        as_older: Callable[[Any], Any] | None = None,
        *,
        is_engage: bool = False,
    ) -> tuple[Batch, NothingAccepted | None]:
        """What came, stored, and why nothing of it was good, if so. `as_older` makes the form that
        is read of another."""
        query: bytes = scope["query_string"]
        now = self._clock()
        read = partial(
            read_batch,
            now=now,
            query_sent_at_ms=sent_at_ms(query) if query else None,
            is_engage=is_engage,
            ip=_text_of(self._origins.client_address(scope)),
            randomness=self._randomness.for_uuid7(),
        )
        refusal = None
        try:
            batch: Batch = await self._payloads.read(
                scope, receive, read if as_older is None else lambda said: read(as_older(said))
            )
        except NothingAccepted as refused:
            batch, refusal = refused.batch, refused
        trace.mark("body")
        project = await project_of(self._directory, batch.token)
        trace.project_id = project.id
        trace.mark("access")
        await self._capture.accept(project.id, batch, now)
        trace.mark("store")
        return batch, refusal


@lru_cache(maxsize=1024)
def _text_of(address: Address | None) -> str:
    return "" if address is None else str(address)


@lru_cache(maxsize=256)
def _is_beacon(query: bytes) -> bool:
    return "1" in parse_qs(query[:2000].decode("latin-1")).get("beacon", ())
