"""Captured requests at an edge process: sent on at once, or stored while that is not possible."""

import time
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime

from starlette.types import Receive, Scope

from hedgerow.edge.forwarding import (
    Forwarder,
    build_forwarded_reply,
    build_path,
    receive_nothing,
    repeat_body,
)
from hedgerow.edge.inbox.queue import Inbox
from hedgerow.edge.inbox.requests import WaitingRequest
from hedgerow.edge.inbox.sender import AWAY, is_key_refused
from hedgerow.edge.state import NO_ORIGIN, EdgeState
from hedgerow.errors import AppError, Unavailable
from hedgerow.http.auth.project_key import InvalidProjectKey
from hedgerow.http.sdk.edge_receipt import HEADER, Receipt
from hedgerow.http.server.gateway import FastHandler
from hedgerow.http.server.proxies import Origins
from hedgerow.http.server.response import Reply
from hedgerow.http.server.trace import Trace
from hedgerow.ingestion.changed_names import GROUP_TYPE_PREFIX, collect_changed_names, hash_name
from hedgerow.ingestion.cookieless.resolve import is_cookieless
from hedgerow.ingestion.model import CaptureBatch, PackedBatch
from hedgerow.lib.tokens import RandomBytesPool
from hedgerow.outbound.origin_client import OriginResponse, OriginUnreachable
from hedgerow.projects.model import ProjectId

# Clients wait for ten seconds or longer. What takes more time than this is stored.
ATTEMPT_TIMEOUT_S = 5.0
# Above this, a request waits for all before it, and all after wait for it.
MAX_KEYS = 100


@dataclass(slots=True)
class _Parsed:
    """What the edge process has read of a request. Cookieless events are never on disk, since they
    have the address of their visitor."""

    project_id: ProjectId | None = None
    keys: tuple[int, ...] = ()
    is_cookieless: bool = False
    reply: Reply | None = None
    error: AppError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Received:
    """A request of a client."""

    scope: Scope
    body: bytes
    trace: Trace
    receipt: Receipt


_parsing: ContextVar[_Parsed] = ContextVar("_parsing")


class ReadOnlyAcceptance:
    """Takes note of the events that the endpoints of capture have parsed."""

    bucket_count = 1

    async def accept(self, project_id: ProjectId, batch: CaptureBatch, now: datetime) -> None:
        parsed = _parsing.get()
        parsed.project_id = project_id
        parsed.is_cookieless = any(map(is_cookieless, batch.events))
        names = {
            name
            for name in collect_changed_names(batch.events)
            if not name.startswith(GROUP_TYPE_PREFIX)
        }
        if len(names) <= MAX_KEYS:
            parsed.keys = tuple(map(hash_name, names))

    async def accept_packed(self, project_id: ProjectId, batch: PackedBatch, now: datetime) -> None:
        parsed = _parsing.get()
        parsed.project_id = project_id
        parsed.is_cookieless = bool(batch.cookieless)


class InboxRoutes:
    """What the routes of capture share. With one project, its key needs no look at the body."""

    def __init__(
        self,
        inbox: Inbox,
        forwarder: Forwarder,
        state: EdgeState,
        origins: Origins,
        *,
        max_bytes: int,
    ) -> None:
        self._inbox = inbox
        self._forwarder = forwarder
        self._state = state
        self._origins = origins
        self._max_bytes = max_bytes
        self._randomness = RandomBytesPool()

    async def serve(
        self, handler: FastHandler, scope: Scope, receive: Receive, trace: Trace
    ) -> Reply:
        """`handler` parses the request, and answers as the service does."""
        body = await self._forwarder.read_body(scope, receive, self._max_bytes)
        trace.mark("body")
        receipt = Receipt(
            received_us=time.time_ns() // 1000,
            randomness=self._randomness.take_uuid7_bytes(),
            ip=self._origins.client(scope).text,
        )
        received = _Received(scope=scope, body=body, trace=trace, receipt=receipt)
        project_id, parsed = self._state.find_only_project_id(), None
        if project_id is None or self._inbox.has_waiting(project_id):
            parsed = await _parse(handler, received)
            project_id = parsed.project_id
        can_wait = True
        if parsed is None or parsed.is_cookieless or not self._has_waiting(project_id):
            response, can_wait = await self._attempt(received, project_id)
            if response is not None and (not can_wait or response.status not in AWAY):
                trace.mark("origin")
                return build_forwarded_reply(response)
        if parsed is None:
            parsed = await _parse(handler, received)
        reply, project_id = _check(parsed, can_wait=can_wait)
        await self._store(received, project_id, parsed.keys)
        trace.mark("store")
        return reply

    def _has_waiting(self, project_id: ProjectId | None) -> bool:
        return project_id is not None and self._inbox.has_waiting(project_id)

    async def _attempt(
        self, received: _Received, project_id: ProjectId | None
    ) -> tuple[OriginResponse | None, bool]:
        """Return the answer of the origin, if any, and whether the request may wait for another.
        Without a key that the origin accepts, it is the request of any client."""
        key = "" if project_id is None else self._state.find_key(project_id)
        if key:
            response = await self._send(received, (HEADER.decode(), received.receipt.encode(key)))
            if response is None or not is_key_refused(response):
                return response, True
        return await self._send(received), False

    async def _send(self, received: _Received, *headers: tuple[str, str]) -> OriginResponse | None:
        try:
            return await self._forwarder.send(
                received.scope, received.body, ATTEMPT_TIMEOUT_S, received.trace, headers
            )
        except (OriginUnreachable, Unavailable):
            return None

    async def _store(
        self, received: _Received, project_id: ProjectId, keys: tuple[int, ...]
    ) -> None:
        scope, body = received.scope, received.body
        request = WaitingRequest(
            project_id=project_id,
            method=scope["method"],
            path=build_path(scope),
            headers=self._forwarder.collect_headers(scope, received.trace),
            receipt=received.receipt,
            keys=keys,
        )
        with self._forwarder.reserve(scope, body):
            await self._inbox.add(request, body)


class InboxRoute:
    """One path of capture."""

    def __init__(self, routes: InboxRoutes, handler: FastHandler) -> None:
        self._routes = routes
        self._handler = handler

    async def __call__(self, scope: Scope, receive: Receive, trace: Trace) -> Reply:
        return await self._routes.serve(self._handler, scope, receive, trace)


def _check(parsed: _Parsed, *, can_wait: bool) -> tuple[Reply, ProjectId]:
    """Return the reply of a request that may be stored, and its project. Raises the error that the
    service would raise. The origin may know a key that is unknown here."""
    if parsed.error is not None and not isinstance(parsed.error, InvalidProjectKey):
        raise parsed.error
    if parsed.error is not None or parsed.is_cookieless or not can_wait:
        raise Unavailable(NO_ORIGIN, retry_after_s=5)
    assert parsed.reply is not None
    assert parsed.project_id is not None
    return parsed.reply, parsed.project_id


async def _parse(handler: FastHandler, received: _Received) -> _Parsed:
    parsed = _Parsed()
    token = _parsing.set(parsed)
    try:
        again = repeat_body(received.scope, received.body)
        parsed.reply = await handler(again, receive_nothing, received.trace)
    except AppError as error:
        parsed.error = error.with_traceback(None)
    finally:
        _parsing.reset(token)
    received.trace.mark("parse")
    return parsed
