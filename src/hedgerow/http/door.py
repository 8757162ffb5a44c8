"""The front door: every request passes here first and leaves here last.

Hot paths are plain handlers in a dictionary and are answered on the spot; everything else goes on
to FastAPI. Around both: the request id, the log line, the metrics, and the last catch for what
nobody foresaw.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import structlog
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hedgerow.errors import AppError, MethodNotAllowed, Unavailable, Unexpected
from hedgerow.http.errors import error_reply
from hedgerow.http.health import Readiness
from hedgerow.http.log import AccessLog
from hedgerow.http.metrics import Metrics
from hedgerow.http.origin import cors
from hedgerow.http.reply import HEAD_ALONE, WHOLE_ANSWER, Header, Reply, header_lines, reply
from hedgerow.http.trace import SCOPE_KEY, Trace

Handler = Callable[[Scope, Receive, Trace], Awaitable[Reply]]

# The end of a path of which the rest may be anything.
ANY = "/{key}"
UNMATCHED = "unmatched"
METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))
CLIENT_GONE = 499

_log = structlog.get_logger("hedgerow.http")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lean:
    """A hot path. `public` ones may be called from any web page; `probe`s are never logged and
    answer before the service is ready; `quick` ones mostly wait for nothing."""

    handler: Handler
    methods: tuple[str, ...]
    public: bool = False
    probe: bool = False
    quick: bool = False

    @property
    def allowed(self) -> list[str]:
        head = ["HEAD"] if "GET" in self.methods else []
        return [*self.methods, *head, "OPTIONS"]


class FrontDoor:
    def __init__(
        self,
        lean: Mapping[str, Lean],
        rest: ASGIApp,
        *,
        readiness: Readiness,
        metrics: Metrics,
        log: AccessLog,
        stopping: asyncio.Event | None = None,
    ) -> None:
        # Set when the service begins to stop, for answers that have no end of their own.
        self.stopping = stopping or asyncio.Event()
        self._lean = {
            form: (path, route)
            for path, route in lean.items()
            for form in {path, path.rstrip("/") + "/"}
        }
        # Paths that end with something of the caller's, by what stands before it.
        self._within = {
            path.removesuffix(ANY) + "/": (path, route)
            for path, route in lean.items()
            if path.endswith(ANY)
        }
        self._rest = rest
        self._readiness = readiness
        self._metrics = metrics
        self._log = log

    def is_quick(self, scope: Scope) -> bool:
        found = self._found(scope["path"])
        return found is not None and found[1].quick

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        found = self._found(scope["path"])
        if found is not None:
            return self._serve_lean(*found, scope, receive, send)
        return self._serve_rest(scope, receive, send)

    def _found(self, path: str) -> tuple[str, Lean] | None:
        return self._lean.get(path) or next(
            (found for start, found in self._within.items() if path.startswith(start)), None
        )

    async def _serve_lean(
        self, path: str, route: Lean, scope: Scope, receive: Receive, send: Send
    ) -> None:
        trace = Trace(scope)
        method = scope["method"]
        try:
            if self._readiness.waiting_for is not None and not route.probe:
                raise _not_ready(self._readiness)
            if method in route.methods or (method == "HEAD" and "GET" in route.methods):
                answer = await route.handler(scope, receive, trace)
            elif method == "OPTIONS":
                answer = reply(204, b"", (b"allow", ", ".join(route.allowed).encode()))
            else:
                raise MethodNotAllowed(method, route.allowed)
        except AppError as error:
            answer = error_reply(error)
        except ClientDisconnect:
            self._finish(trace, method, path, CLIENT_GONE, probe=route.probe)
            return
        except asyncio.CancelledError:  # the server stops and the grace time is over
            answer = error_reply(_stopping())
        except Exception:  # noqa: BLE001 - the HTTP edge: one of three places
            _log.exception("request failed", request_id=trace.id.decode(), route=path)
            answer = error_reply(Unexpected())
        more: list[Header] = []
        if route.public and trace.origin:
            more = cors(scope, trace.origin, ", ".join(route.allowed))
        head = b"%s%sx-request-id: %s\r\n" % (answer.head, header_lines(more), trace.id)
        write_whole = scope.get("extensions", {}).get(WHOLE_ANSWER)
        if write_whole is None or not write_whole(head, answer.body):
            headers = [*answer.headers, *more, (b"x-request-id", trace.id)]
            await send({"type": "http.response.start", "status": answer.status, "headers": headers})
            await send({"type": "http.response.body", "body": answer.body})
        self._finish(trace, method, path, answer.status, probe=route.probe)

    async def _serve_rest(self, scope: Scope, receive: Receive, send: Send) -> None:
        trace = Trace(scope)
        outgoing = _Outgoing(send, trace.id)
        inner = _inner_scope(scope, trace)
        try:
            if self._readiness.waiting_for is not None:
                await outgoing.whole(error_reply(_not_ready(self._readiness)))
            else:
                await self._rest(inner, receive, outgoing.send)
        except ClientDisconnect:
            outgoing.status = CLIENT_GONE
        except asyncio.CancelledError:  # the server stops and the grace time is over
            if not outgoing.status:
                await outgoing.whole(error_reply(_stopping()))
        except Exception:  # noqa: BLE001 - the HTTP edge: one of three places
            _log.exception("request failed", request_id=trace.id.decode(), route=_route_of(inner))
            if not outgoing.status:
                await outgoing.whole(error_reply(Unexpected()))
        trace.mark("answer")
        self._finish(trace, scope["method"], _route_of(inner), outgoing.status, probe=False)

    def _finish(self, trace: Trace, method: str, route: str, status: int, *, probe: bool) -> None:
        seconds = time.perf_counter() - trace.started
        if method not in METHODS:
            method = "OTHER"
        self._metrics.count(method, route, status, seconds)
        if not probe:
            self._log.add(trace, method, route, status, seconds)


class _Outgoing:
    """Passes an answer on, adds the request id and remembers the status."""

    def __init__(self, send: Send, id: bytes) -> None:
        self._send = send
        self._id = id
        self.status = 0

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message["headers"] = [*message.get("headers", ()), (b"x-request-id", self._id)]
        await self._send(message)

    async def whole(self, answer: Reply) -> None:
        await self.send(
            {"type": "http.response.start", "status": answer.status, "headers": answer.headers}
        )
        await self.send({"type": "http.response.body", "body": answer.body})


def _inner_scope(scope: Scope, trace: Trace) -> dict[str, Any]:
    """The request as FastAPI sees it: paths under /api end in a slash whichever form came in, and
    HEAD is a GET whose body the server leaves out."""
    inner = dict(scope)
    inner[SCOPE_KEY] = trace
    if scope["method"] == "HEAD":
        inner["method"] = "GET"
        inner[HEAD_ALONE] = True
    path = scope["path"]
    if path.startswith(("/api", "/site_app/", "/array/", "/static/")) and not path.endswith("/"):
        inner["path"] = path + "/"
    return inner


def _route_of(scope: Scope) -> str:
    return getattr(scope.get("route"), "path", UNMATCHED)


def _stopping() -> Unavailable:
    return Unavailable("The service is shutting down. Try again shortly.")


def _not_ready(readiness: Readiness) -> Unavailable:
    return Unavailable(f"Hedgerow is not ready yet ({readiness.waiting_for}). Try again shortly.")
