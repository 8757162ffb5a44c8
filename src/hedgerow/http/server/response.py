"""Responses: a plain Reply for fast routes, Starlette responses for /api."""

import gzip
from collections.abc import Iterable
from functools import lru_cache, partial
from http import HTTPStatus
from typing import Any

import msgspec
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from hedgerow.http.server.headers import read_encodings, read_header
from hedgerow.lib import jsonio
from hedgerow.lib.threads import run_in_thread

Header = tuple[bytes, bytes]

# Status codes without a body and a length.
BODILESS = (204, 304)
NO_STORE: Header = (b"cache-control", b"no-store")
JSON_TYPE: Header = (b"content-type", b"application/json")

# An ASGI extension of the server: takes the head of a response (status line and headers, without
# the empty line) and the body, writes both at once, and returns whether it could.
WRITE_RESPONSE_KEY = "hedgerow.write_response"
# Set in the scope of a HEAD request.
HEAD_ONLY_KEY = "hedgerow.head_only"
# Less fits into a few packets anyway.
MIN_COMPRESSED_BYTES = 4_096
MAX_INLINE_BYTES = 65_536
# A third of the time of the default, for a sixth more bytes.
GZIP_LEVEL = 1

_STATUS_LINES = {
    status.value: b"HTTP/1.1 %d %s\r\n" % (status, status.phrase.encode()) for status in HTTPStatus
}


class Reply(msgspec.Struct, frozen=True):
    """A complete response of a fast route."""

    status: int
    own_headers: tuple[Header, ...]
    body: bytes

    @property
    def headers(self) -> tuple[Header, ...]:
        if self.status in BODILESS:
            return self.own_headers
        return ((b"content-length", b"%d" % len(self.body)), *self.own_headers)

    @property
    def head(self) -> bytes:
        """Status line and headers."""
        head = _head(self.status, self.own_headers)
        if self.status in BODILESS:
            return head
        return b"%scontent-length: %d\r\n" % (head, len(self.body))


def build_reply(status: int, body: bytes, *headers: Header) -> Reply:
    return Reply(status, headers, b"" if status in BODILESS else body)


@lru_cache(maxsize=100)
def _head(status: int, headers: tuple[Header, ...]) -> bytes:
    return _STATUS_LINES[status] + header_lines(headers)


def header_lines(headers: Iterable[Header]) -> bytes:
    return b"".join([b"%s: %s\r\n" % header for header in headers])


def build_json_reply(status: int, value: Any, *headers: Header) -> Reply:
    return build_reply(status, jsonio.encode(value), JSON_TYPE, *headers)


class JsonResponse(Response):
    """The response of an endpoint under /api. Structs keep the order of their fields."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return jsonio.encode(content)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if len(self.body) >= MIN_COMPRESSED_BYTES and _is_page_of_ours(scope):
            await self._compress()
        await super().__call__(scope, receive, send)

    async def _compress(self) -> None:
        # A larger body takes long enough to leave the event loop; zlib releases the GIL.
        compress = partial(gzip.compress, self.body, GZIP_LEVEL, mtime=0)
        is_large = len(self.body) > MAX_INLINE_BYTES
        self.body = await run_in_thread(compress) if is_large else compress()
        self.headers["content-length"] = str(len(self.body))
        self.headers["content-encoding"] = "gzip"
        self.headers.add_vary_header("Accept-Encoding")


def _is_page_of_ours(scope: Scope) -> bool:
    """Whether the console asks. It may be far away, while scripts and SDKs, which are mostly near,
    would pay for the compression with CPU time on both sides."""
    is_own = read_header(scope, b"sec-fetch-site") == "same-origin"
    return is_own and "gzip" in read_encodings(scope)


def no_content() -> Response:
    return Response(status_code=204)


class IncompleteBody(Exception):
    """The rest of a body cannot be produced. Its end is not sent and the connection is closed, so
    that the client takes it for incomplete."""


class ApiStreamingResponse(StreamingResponse):
    """A response that is produced while it is sent. A HEAD request produces no body: some streams
    never end."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not scope.get(HEAD_ONLY_KEY):
            await super().__call__(scope, receive, send)
            return
        start = {"status": self.status_code, "headers": self.raw_headers}
        await send({"type": "http.response.start", **start})
        await send({"type": "http.response.body"})
