"""Answers: a plain value for the lean door, a Starlette response of the same bytes for /api."""

from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

from hedgerow.kit import jsonio

Header = tuple[bytes, bytes]

JSON_TYPE: Header = (b"content-type", b"application/json")


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole answer of the lean door, ready to be sent."""

    status: int
    headers: tuple[Header, ...]
    body: bytes


def reply(status: int, body: bytes, *headers: Header) -> Reply:
    if status == 204:
        return Reply(status, headers, b"")
    return Reply(status, ((b"content-length", b"%d" % len(body)), *headers), body)


def json_reply(status: int, value: Any, *headers: Header) -> Reply:
    return reply(status, jsonio.encode(value), JSON_TYPE, *headers)


class JsonResponse(Response):
    """What an endpoint under /api returns. Structs keep the order of their fields."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return jsonio.encode(content)


def no_content() -> Response:
    return Response(status_code=204)
