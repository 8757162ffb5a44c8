"""The gateway: every request enters and leaves here.

Fast routes are plain handlers in a dictionary and run before the framework; every other request
goes to the Starlette application. For both, the gateway adds the request id, the access log, the
metrics and the last exception handler.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import structlog
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hedgerow.errors import AppError, InternalError, MethodNotAllowed, Unavailable
from hedgerow.http.server.access_log import AccessLog
from hedgerow.http.server.connections import ConnectionTable
from hedgerow.http.server.errors import build_error_reply
from hedgerow.http.server.health import Readiness
from hedgerow.http.server.metrics import Metrics
from hedgerow.http.server.proxies import build_cors_headers
from hedgerow.http.server.request_queues import RequestQueue, RequestQueues
from hedgerow.http.server.response import (
    HEAD_ONLY_KEY,
    NO_STORE,
    WRITE_RESPONSE_KEY,
    Header,
    IncompleteBody,
    Reply,
    build_reply,
    header_lines,
)
from hedgerow.http.server.senders import Senders
from hedgerow.http.server.spans import RequestSpans
from hedgerow.http.server.trace import SCOPE_KEY, Trace
from hedgerow.lib.stale_reads import STALE_HEADER, Reads, watch_reads

# Counts a public call of a client. Raises RateLimitExceeded.
AdmitClient = Callable[[Scope], None]
FastHandler = Callable[[Scope, Receive, Trace], Awaitable[Reply]]

# The end of a fast route with a path parameter.
PARAMETER = "/{key}"
UNMATCHED = "unmatched"
METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))
CLIENT_GONE = 499
API_ROOT = "/api/"

_log = structlog.get_logger("hedgerow.http")


@dataclass(frozen=True, slots=True, kw_only=True)
class FastRoute:
    """A path that the gateway serves without the framework. Pages of any site may call a public
    one; the calls of a client are limited. A probe is not logged and responds before the service is
    ready. The handler of a quick one rarely waits, so the server runs it without a task. Requests
    of capture wait in a queue of their own."""

    handler: FastHandler
    methods: tuple[str, ...]
    is_public: bool = False
    is_probe: bool = False
    is_quick: bool = False
    is_capture: bool = False
    allows_credentials: bool = False

    @property
    def allowed_methods(self) -> list[str]:
        head = ["HEAD"] if "GET" in self.methods else []
        return [*self.methods, *head, "OPTIONS"]


class Gateway:
    def __init__(  # noqa: PLR0913 - collaborators, all named
        self,
        routes: Mapping[str, FastRoute],
        app: ASGIApp,
        *,
        readiness: Readiness,
        metrics: Metrics,
        log: AccessLog,
        open_connections: ConnectionTable,
        queues: RequestQueues,
        senders: Senders,
        admit_client: AdmitClient,
        stopping: asyncio.Event | None = None,
        spans: RequestSpans | None = None,
    ) -> None:
        # The server enforces their limits.
        self.open_connections = open_connections
        self.queues = queues
        self.senders = senders
        self._admit_client = admit_client
        # Set when the service begins to stop, for streaming responses.
        self.stopping = stopping or asyncio.Event()
        self._routes = {
            spelling: (path, route)
            for path, route in routes.items()
            for spelling in {path, path.rstrip("/") + "/"}
        }
        self._queues_by_path = {
            path: self._choose_queue(route) for path, (_, route) in self._routes.items()
        }
        # Routes that end with a parameter, by the path before it.
        self._prefixes = {
            path.removesuffix(PARAMETER) + "/": (path, route)
            for path, route in routes.items()
            if path.endswith(PARAMETER)
        }
        self._app = app
        self.readiness = readiness
        self._metrics = metrics
        self._log = log
        self._spans = spans

    def find_queue(self, path: str) -> tuple[RequestQueue, bool]:
        """Return the queue of a path, and whether its route is quick."""
        known = self._queues_by_path.get(path)
        if known is not None:
            return known
        found = self._find(path)
        return (self.queues.api, False) if found is None else self._choose_queue(found[1])

    def _choose_queue(self, route: FastRoute) -> tuple[RequestQueue, bool]:
        if route.is_probe:
            return self.queues.probes, False
        return self.queues.capture if route.is_capture else self.queues.flags, route.is_quick

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        found = self._find(scope["path"])
        if found is not None:
            return self._serve_fast(*found, scope, receive, send)
        return self._serve_app(scope, receive, send)

    def _find(self, path: str) -> tuple[str, FastRoute] | None:
        return self._routes.get(path) or next(
            (found for start, found in self._prefixes.items() if path.startswith(start)), None
        )

    async def _serve_fast(
        self, path: str, route: FastRoute, scope: Scope, receive: Receive, send: Send
    ) -> None:
        trace = Trace(scope)
        method = scope["method"]
        try:
            handler = route.handler if route.is_probe else self._admit(path, route, scope)
            if method in route.methods or (method == "HEAD" and "GET" in route.methods):
                reply = await handler(scope, receive, trace)
            elif method == "OPTIONS":
                reply = build_reply(204, b"", (b"allow", ", ".join(route.allowed_methods).encode()))
            else:
                raise MethodNotAllowed(method, route.allowed_methods)
        except AppError as error:
            reply = build_error_reply(error)
        except ClientDisconnect:
            self._finish(trace, method, path, CLIENT_GONE, probe=route.is_probe)
            return
        except asyncio.CancelledError:  # the server is stopping and the grace period is over
            reply = build_error_reply(_stopping_error())
        except Exception:  # noqa: BLE001 - the HTTP edge
            _log.exception("request failed", request_id=trace.id.decode(), route=path)
            reply = build_error_reply(InternalError())
        cors: list[Header] = []
        if route.is_public and trace.origin:
            cors = build_cors_headers(
                scope,
                trace.origin,
                ", ".join(route.allowed_methods),
                allows_credentials=route.allows_credentials,
            )
        own = [*cors, NO_STORE] if _needs_no_store(path, reply.own_headers) else cors
        own_lines = header_lines(own) if own else b""
        head = b"%s%sx-request-id: %s\r\n" % (reply.head, own_lines, trace.id)
        write_response = scope.get("extensions", {}).get(WRITE_RESPONSE_KEY)
        if write_response is None or not write_response(head, reply.body):
            headers = [*reply.headers, *own, (b"x-request-id", trace.id)]
            await send({"type": "http.response.start", "status": reply.status, "headers": headers})
            await send({"type": "http.response.body", "body": reply.body})
        self._finish(trace, method, path, reply.status, probe=route.is_probe)

    def _admit(self, path: str, route: FastRoute, scope: Scope) -> FastHandler:
        handler = route.handler
        if self.readiness.waiting_for is not None:
            found = self.readiness.fallback.get(path)
            if found is None:
                raise _not_ready_error(self.readiness)
            handler = found
        if route.is_public and scope["method"] != "OPTIONS":
            self._admit_client(scope)
        return handler

    async def _serve_app(self, scope: Scope, receive: Receive, send: Send) -> None:
        trace = Trace(scope)
        sender = _ResponseSender(send, scope["path"], trace.id, watch_reads())
        inner = _inner_scope(scope, trace)
        try:
            if self.readiness.waiting_for is not None:
                await sender.send_reply(build_error_reply(_not_ready_error(self.readiness)))
            else:
                await self._app(inner, receive, sender.send)
        except ClientDisconnect:
            sender.status = CLIENT_GONE
        except IncompleteBody as error:
            _log.warning(
                "a response is incomplete", request_id=trace.id.decode(), reason=str(error)
            )
        except asyncio.CancelledError:  # the server is stopping and the grace period is over
            if not sender.status:
                await sender.send_reply(build_error_reply(_stopping_error()))
        except Exception:  # noqa: BLE001 - the HTTP edge
            _log.exception(
                "request failed", request_id=trace.id.decode(), route=_matched_path(inner)
            )
            if not sender.status:
                await sender.send_reply(build_error_reply(InternalError()))
        trace.mark("answer")
        self._finish(trace, scope["method"], _matched_path(inner), sender.status, probe=False)

    def _finish(self, trace: Trace, method: str, route: str, status: int, *, probe: bool) -> None:
        seconds = time.perf_counter() - trace.started
        if method not in METHODS:
            method = "OTHER"
        self._metrics.count(method, route, status, seconds)
        if not probe:
            self._log.add(trace, method, route, status, seconds)
            if self._spans is not None:
                self._spans.add(trace, method, route, status, seconds)


class _ResponseSender:
    """Forwards a response, adds the headers that depend on the request, and keeps the status."""

    def __init__(self, send: Send, path: str, id: bytes, reads: Reads) -> None:
        self._send = send
        self._path = path
        self._id = id
        self._reads = reads
        self.status = 0

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = [*message.get("headers", ()), (b"x-request-id", self._id)]
            if _needs_no_store(self._path, headers):
                headers.append(NO_STORE)
            if self._reads.are_stale:
                headers.append((STALE_HEADER, b"true"))
            message["headers"] = headers
        await self._send(message)

    async def send_reply(self, reply: Reply) -> None:
        await self.send(
            {"type": "http.response.start", "status": reply.status, "headers": reply.headers}
        )
        await self.send({"type": "http.response.body", "body": reply.body})


def _needs_no_store(path: str, headers: Iterable[Header]) -> bool:
    """Whether caches must not store a response: it is under /api, and not meant to be cached."""
    return path.startswith(API_ROOT) and not any(
        name.lower() in (b"cache-control", b"etag") for name, _ in headers
    )


def _inner_scope(scope: Scope, trace: Trace) -> dict[str, Any]:
    """Return the scope for the application: paths under /api end with a slash, and HEAD is a GET
    whose body the server omits."""
    inner = dict(scope)
    inner[SCOPE_KEY] = trace
    if scope["method"] == "HEAD":
        inner["method"] = "GET"
        inner[HEAD_ONLY_KEY] = True
    path = scope["path"]
    if path.startswith(("/api", "/site_app/", "/array/", "/static/")) and not path.endswith("/"):
        inner["path"] = path + "/"
    return inner


def _matched_path(scope: Scope) -> str:
    return getattr(scope.get("endpoint"), "path", UNMATCHED)


def _stopping_error() -> Unavailable:
    return Unavailable("The service is shutting down. Try again shortly.")


def _not_ready_error(readiness: Readiness) -> Unavailable:
    return Unavailable(f"Hedgerow is not ready yet ({readiness.waiting_for}). Try again shortly.")
