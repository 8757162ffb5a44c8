"""Answers: a plain value for the lean door, a Starlette response of the same bytes for /api."""

from collections.abc import Iterable
from functools import lru_cache
from http import HTTPStatus
from typing import Any

import msgspec
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from hedgerow.lib import jsonio

Header = tuple[bytes, bytes]

# Answers that have no body and no length.
BODILESS = (204, 304)
JSON_TYPE: Header = (b"content-type", b"application/json")

# An ASGI extension of our server: it takes the head of an answer (status line and headers, without
# the empty line) and the body, writes both at once, and says whether it could.
WHOLE_ANSWER = "hedgerow.whole_answer"
# In the scope of a request that wants the head of an answer alone.
HEAD_ALONE = "hedgerow.head_alone"

_STATUS_LINES = {
    status.value: b"HTTP/1.1 %d %s\r\n" % (status, status.phrase.encode()) for status in HTTPStatus
}


class Reply(msgspec.Struct, frozen=True):
    """A whole answer of the lean door, ready to be sent."""

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


def reply(status: int, body: bytes, *headers: Header) -> Reply:
    return Reply(status, headers, b"" if status in BODILESS else body)


@lru_cache(maxsize=100)
def _head(status: int, headers: tuple[Header, ...]) -> bytes:
    return _STATUS_LINES[status] + header_lines(headers)


def header_lines(headers: Iterable[Header]) -> bytes:
    return b"".join([b"%s: %s\r\n" % header for header in headers])


def json_reply(status: int, value: Any, *headers: Header) -> Reply:
    return reply(status, jsonio.encode(value), JSON_TYPE, *headers)


class JsonResponse(Response):
    """What an endpoint under /api returns. Structs keep the order of their fields."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return jsonio.encode(content)


def no_content() -> Response:
    return Response(status_code=204)


class Streamed(StreamingResponse):
    """An answer that is made while it is sent. Where the head alone is wanted nothing is made: some
    have no end."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not scope.get(HEAD_ALONE):
            await super().__call__(scope, receive, send)
            return
        start = {"status": self.status_code, "headers": self.raw_headers}
        await send({"type": "http.response.start", **start})
        await send({"type": "http.response.body"})
