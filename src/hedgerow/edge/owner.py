"""Requests that a reader passes on to the owner of the data, unchanged, and its answers."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from hedgerow.edge.forwarding import (
    Forwarder,
    build_forwarded_reply,
    build_path,
    receive_nothing,
    repeat_body,
)
from hedgerow.edge.state import NeedsOrigin
from hedgerow.errors import Forbidden, NotAuthenticated, Unavailable
from hedgerow.http.auth.project_key import InvalidProjectKey
from hedgerow.http.server.gateway import FastHandler
from hedgerow.http.server.headers import read_header
from hedgerow.http.server.internal_peer import HEADER, describe_peer
from hedgerow.http.server.response import ApiStreamingResponse, Reply
from hedgerow.http.server.trace import Trace
from hedgerow.outbound.origin_client import OriginClient, OriginUnreachable

# Longer than the owner itself waits for its database.
OWNER_TIMEOUT_S = 30.0
NO_OWNER = "The process that has the data is not available. Try again shortly."
# Keys that only the owner knows.
UNKNOWN_KEY = (InvalidProjectKey, NotAuthenticated, Forbidden)
# Concern one connection only.
HOP_HEADERS = frozenset(
    (
        *(b"connection", b"keep-alive", b"proxy-connection", b"te", b"trailer"),
        *(b"transfer-encoding", b"upgrade", b"expect", HEADER),
    )
)
# The server or the gateway of this process adds them.
OWN_HEADERS = frozenset((b"date", b"x-content-type-options", b"x-request-id"))


def build_owner_headers(scope: Scope) -> list[tuple[str, str]]:
    """Return the headers of the client, and its address. The length is set anew."""
    return [
        *(
            (name.decode("latin-1"), value.decode("latin-1"))
            for name, value in scope["headers"]
            if name not in HOP_HEADERS and name != b"content-length"
        ),
        (HEADER.decode(), describe_peer(scope)),
    ]


class OwnerRoute:
    """A fast route that this process answers if it can, and the owner otherwise. Without the owner,
    `lenient` answers with errors for the flags that it cannot evaluate."""

    def __init__(
        self,
        handler: FastHandler,
        lenient: FastHandler | None,
        forwarder: Forwarder,
        *,
        max_bytes: int,
    ) -> None:
        self._handler = handler
        self._lenient = lenient
        self._forwarder = forwarder
        self._max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, trace: Trace) -> Reply:
        body = await self._forwarder.read_body(scope, receive, self._max_bytes)
        again = repeat_body(scope, body)
        lenient = self._lenient
        try:
            return await self._handler(again, receive_nothing, trace)
        except NeedsOrigin:
            pass
        except UNKNOWN_KEY:
            lenient = None
        try:
            response = await self._forwarder.send(scope, body, OWNER_TIMEOUT_S)
        except OriginUnreachable:
            if lenient is None:
                raise Unavailable(NO_OWNER) from None
            return await lenient(again, receive_nothing, trace)
        trace.mark("owner")
        return build_forwarded_reply(response)


class OwnerApp:
    """Every other path: the request and its response pass through as they come."""

    def __init__(self, client: OriginClient) -> None:
        self._client = client

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = build_owner_headers(scope)
        length = read_header(scope, b"content-length")
        has_body = length not in ("", "0") or bool(read_header(scope, b"transfer-encoding"))
        if has_body and length:
            headers.append(("Content-Length", length))
        async with AsyncExitStack() as stack:
            try:
                response = await stack.enter_async_context(
                    self._client.forward_streaming(
                        scope["method"],
                        build_path(scope),
                        headers,
                        _iter_body(receive) if has_body else None,
                    )
                )
            except OriginUnreachable:
                raise Unavailable(NO_OWNER) from None
            passed = ApiStreamingResponse(response.content.iter_any(), response.status)
            passed.raw_headers = [
                (name.lower(), value)
                for name, value in response.raw_headers
                if name.lower() not in HOP_HEADERS | OWN_HEADERS
            ]
            await passed(scope, receive, send)


async def _iter_body(receive: Receive) -> AsyncIterator[bytes]:
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        yield message.get("body", b"")
        if not message.get("more_body"):
            return
