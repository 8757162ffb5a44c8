"""Answers: a plain value for the lean door, a Starlette response of the same bytes for /api."""

from collections.abc import Iterable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from starlette.responses import Response

from hedgerow.kit import jsonio

Header = tuple[bytes, bytes]

JSON_TYPE: Header = (b"content-type", b"application/json")

# An ASGI extension of our server: it takes the head of an answer (status line and headers, without
# the empty line) and the body, writes both at once, and says whether it could.
WHOLE_ANSWER = "hedgerow.whole_answer"

_STATUS_LINES = {
    status.value: b"HTTP/1.1 %d %s\r\n" % (status, status.phrase.encode()) for status in HTTPStatus
}


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole answer of the lean door, ready to be sent."""

    status: int
    headers: tuple[Header, ...]
    body: bytes
    head: bytes


def reply(status: int, body: bytes, *headers: Header) -> Reply:
    if status == 204:
        body = b""
    else:
        headers = ((b"content-length", b"%d" % len(body)), *headers)
    return Reply(status, headers, body, _STATUS_LINES[status] + header_lines(headers))


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
