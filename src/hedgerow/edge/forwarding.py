"""Requests that an edge process sends on to its origin.

An evaluation that needs stored data is the origin's, within a time limit; after that the edge
process answers with what it knows. For captured events see `inbox/route.py`.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from hedgerow.edge.state import NO_ORIGIN, NeedsOrigin
from hedgerow.errors import NotFound, Unavailable
from hedgerow.http.payload.body_memory import BodyMemory
from hedgerow.http.payload.receive import (
    TAKE_BODY_KEY,
    check_announced_size,
    receive_body,
    take_complete_body,
)
from hedgerow.http.sdk.edge_receipt import HEADER as EDGE_HEADER
from hedgerow.http.server.gateway import FastHandler
from hedgerow.http.server.headers import read_header
from hedgerow.http.server.proxies import Origins
from hedgerow.http.server.response import Header, Reply, build_reply
from hedgerow.http.server.spans import RequestSpans
from hedgerow.http.server.trace import Trace
from hedgerow.lib.eager import ensure_task
from hedgerow.lib.stale_reads import STALE_HEADER
from hedgerow.outbound.origin_client import (
    MAX_FORWARDED,
    Headers,
    OriginClient,
    OriginRequest,
    OriginResponse,
    OriginUnreachable,
)

# After a failure, evaluations are not forwarded for this long; longer after each further failure.
FIRST_PAUSE_S = 0.5
MAX_PAUSE_S = 15.0
# Concerns this connection only, or is set anew.
DROPPED_HEADERS = frozenset(
    (
        *("connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te"),
        *("trailer", "transfer-encoding", "upgrade", "host", "content-length", "expect"),
        *("x-forwarded-for", "x-request-id", "cookie", "accept-encoding"),
        EDGE_HEADER.decode(),
    )
)
# The gateway adds the others.
KEPT_HEADERS = frozenset(
    (
        *("content-type", "etag", "cache-control", "retry-after", "www-authenticate", "allow"),
        *("access-control-expose-headers", "location", STALE_HEADER.decode()),
    )
)
# Scripts and configurations that pages load from the origin.
ASSET_PATHS = ("/site_app/", "/static/", "/array/")


# Returns the headers of a forwarded request.
BuildHeaders = Callable[[Scope], list[tuple[str, str]]]


class Forwarder:
    """Sends requests on, at most MAX_FORWARDED at the same time."""

    def __init__(
        self,
        client: OriginClient,
        memory: BodyMemory,
        origins: Origins,
        *,
        build_headers: BuildHeaders,
        read_timeout_s: float,
        spans: RequestSpans | None = None,
    ) -> None:
        self._client = client
        self._build_headers = build_headers
        self._spans = spans
        self._memory = memory
        self._origins = origins
        self._read_timeout_s = read_timeout_s
        self._running = 0
        # For the metrics.
        self.forwarded = self.failed = 0

    async def read_body(self, scope: Scope, receive: Receive, max_bytes: int) -> bytes:
        body = take_complete_body(scope, max_bytes)
        if body is not None:
            return body
        check_announced_size(scope, max_bytes)
        address = str(self._origins.client_address(scope))
        with self._memory.reserve(address) as reservation:
            return await receive_body(
                receive, reservation, max_bytes=max_bytes, timeout_s=self._read_timeout_s
            )

    def collect_headers(self, scope: Scope, trace: Trace | None) -> list[tuple[str, str]]:
        """Return the headers for the origin, whose span is a child of this process's own."""
        headers = self._build_headers(scope)
        if self._spans is None or trace is None:
            return headers
        own = ("traceparent", self._spans.find_context(trace).traceparent)
        return [*(each for each in headers if each[0].lower() != own[0]), own]

    @contextmanager
    def reserve(self, scope: Scope, body: bytes) -> Iterator[None]:
        """Count the memory of a body. Raises Unavailable if there is none left."""
        with self._memory.reserve(str(self._origins.client_address(scope))) as reservation:
            reservation.add(len(body))
            yield

    async def send(
        self,
        scope: Scope,
        body: bytes,
        timeout_s: float,
        trace: Trace | None = None,
        headers: Headers = (),
    ) -> OriginResponse:
        """Send a request on, with further headers. Raises OriginUnreachable, and Unavailable if too
        many bodies wait for the origin."""
        if self._running >= MAX_FORWARDED:
            raise Unavailable("Too many requests wait for the origin. Try again shortly.")
        request = OriginRequest(
            method=scope["method"],
            path=build_path(scope),
            headers=[*self.collect_headers(scope, trace), *headers],
            body=body,
            timeout_s=timeout_s,
        )
        with self.reserve(scope, body):
            await ensure_task()
            return await self._send(request)

    async def _send(self, request: OriginRequest) -> OriginResponse:
        self._running += 1
        self.forwarded += 1
        try:
            return await self._client.forward(request)
        except OriginUnreachable:
            self.failed += 1
            raise
        finally:
            self._running -= 1


class ForwardedRoute:
    """A fast route that the origin answers. Without the origin it answers 503, so that SDKs keep
    their events and send them again; `unavailable` says what is missing."""

    def __init__(
        self, forwarder: Forwarder, *, max_bytes: int, timeout_s: float, unavailable: str
    ) -> None:
        self._forwarder = forwarder
        self._unavailable = unavailable
        self._max_bytes = max_bytes
        self._timeout_s = timeout_s

    async def __call__(self, scope: Scope, receive: Receive, trace: Trace) -> Reply:
        body = await self._forwarder.read_body(scope, receive, self._max_bytes)
        trace.mark("body")
        try:
            response = await self._forwarder.send(scope, body, self._timeout_s, trace)
        except OriginUnreachable:
            raise Unavailable(self._unavailable, retry_after_s=5) from None
        trace.mark("origin")
        return build_forwarded_reply(response)


class OriginPatience:
    """Whether to wait for the origin: not while it is known to be away."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._pause_s = FIRST_PAUSE_S
        self._paused_until_s = float("-inf")

    @property
    def is_over(self) -> bool:
        return self._clock() < self._paused_until_s

    def record_failure(self) -> None:
        self._paused_until_s = self._clock() + self._pause_s
        self._pause_s = min(2 * self._pause_s, MAX_PAUSE_S)

    def record_success(self) -> None:
        self._pause_s, self._paused_until_s = FIRST_PAUSE_S, float("-inf")


class EvaluationRoute:
    """Evaluates flags here if the request has all that they depend on. `strict` raises NeedsOrigin
    otherwise; `lenient` answers with errors for the flags that it cannot evaluate."""

    def __init__(
        self,
        strict: FastHandler,
        lenient: FastHandler,
        forwarder: Forwarder,
        patience: OriginPatience,
        *,
        max_bytes: int,
        timeout_s: float,
    ) -> None:
        self._strict = strict
        self._lenient = lenient
        self._forwarder = forwarder
        self._patience = patience
        self._max_bytes = max_bytes
        self._timeout_s = timeout_s

    async def __call__(self, scope: Scope, receive: Receive, trace: Trace) -> Reply:
        body = await self._forwarder.read_body(scope, receive, self._max_bytes)
        again = repeat_body(scope, body)
        try:
            return await self._strict(again, receive_nothing, trace)
        except NeedsOrigin:
            pass
        if self._timeout_s and not self._patience.is_over:
            try:
                response = await self._forwarder.send(scope, body, self._timeout_s, trace)
            except OriginUnreachable:
                self._patience.record_failure()
            except Unavailable:
                pass
            else:
                if response.status < 500 and response.status != 429:
                    self._patience.record_success()
                    trace.mark("origin")
                    return build_forwarded_reply(response)
                self._patience.record_failure()
        return await self._lenient(again, receive_nothing, trace)


class AssetApp:
    """Scripts for pages, from the origin. Every other path is not found."""

    def __init__(self, forwarder: Forwarder, *, timeout_s: float) -> None:
        self._forwarder = forwarder
        self._timeout_s = timeout_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not scope["path"].startswith(ASSET_PATHS) or scope["method"] not in ("GET", "OPTIONS"):
            raise NotFound("An edge process does not serve this path: call its origin.")
        try:
            response = await self._forwarder.send(scope, b"", self._timeout_s)
        except OriginUnreachable:
            raise Unavailable(NO_ORIGIN, retry_after_s=5) from None
        kept = (
            *KEPT_HEADERS,
            *("access-control-allow-origin", "access-control-allow-methods", "vary"),
            *("access-control-allow-headers", "access-control-max-age"),
            "access-control-allow-credentials",
        )
        headers = [
            *_encode_headers(response, kept),
            (b"content-length", b"%d" % len(response.body)),
        ]
        await send({"type": "http.response.start", "status": response.status, "headers": headers})
        await send({"type": "http.response.body", "body": response.body})


def build_path(scope: Scope) -> str:
    """Return the path and the query string as the client sent them."""
    query = scope["query_string"].decode("latin-1")
    path: str = scope.get("raw_path", scope["path"].encode()).decode("latin-1")
    return f"{path}?{query}" if query else path


def build_edge_headers(scope: Scope) -> list[tuple[str, str]]:
    """Return the headers of the client, and its address at the end of X-Forwarded-For."""
    peer = scope["client"][0] if scope.get("client") else ""
    chain = [read_header(scope, b"x-forwarded-for"), peer]
    headers = (
        (name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]
    )
    return [
        *((name, value) for name, value in headers if name.lower() not in DROPPED_HEADERS),
        ("X-Forwarded-For", ", ".join(filter(None, chain))),
    ]


def build_forwarded_reply(response: OriginResponse) -> Reply:
    return build_reply(response.status, response.body, *_encode_headers(response, KEPT_HEADERS))


def _encode_headers(response: OriginResponse, kept: Iterable[str]) -> list[Header]:
    names = frozenset(kept)
    return [
        (name.encode("latin-1"), value.encode("latin-1", "replace"))
        for name, value in response.headers
        if name in names
    ]


def repeat_body(scope: Scope, body: bytes) -> Scope:
    """Return the scope with a body that can be read several times."""
    return {**scope, "extensions": {**scope.get("extensions", {}), TAKE_BODY_KEY: lambda: body}}


async def receive_nothing() -> dict[str, object]:
    await asyncio.sleep(0)
    raise ClientDisconnect
