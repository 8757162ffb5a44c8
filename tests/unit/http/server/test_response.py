import gzip
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from hedgerow.http.server.response import (
    JSON_TYPE,
    MAX_INLINE_BYTES,
    MIN_COMPRESSED_BYTES,
    JsonResponse,
    build_json_reply,
    build_reply,
    no_content,
)


class Point(msgspec.Struct):
    y: int
    x: int


def test_json_reply_has_type_and_length() -> None:
    response = build_json_reply(201, {"name": "ü"}, (b"x-a", b"1"))
    assert response.status == 201
    assert response.body == '{"name":"ü"}'.encode()
    assert response.headers == ((b"content-length", b"13"), JSON_TYPE, (b"x-a", b"1"))


def test_reply_without_content_has_no_length() -> None:
    """RFC 9110, 8.6: a server must not send Content-Length with 204."""
    assert b"content-length" not in dict(build_reply(204, b"").headers)
    assert "content-length" not in no_content().headers


@pytest.mark.parametrize(
    ("value", "body"),
    [(Point(2, 1), b'{"y":2,"x":1}'), ([None, True], b"[null,true]"), ({}, b"{}")],
)
def test_json_response_keeps_the_order_of_fields(value: object, body: bytes) -> None:
    response = JsonResponse(value)
    assert response.body == body
    assert response.headers["content-type"] == "application/json"


PAGE = {"sec-fetch-site": "same-origin", "accept-encoding": "gzip, br"}


async def send_json(value: object, headers: Mapping[str, str]) -> tuple[Mapping[str, str], bytes]:
    """Return the headers and the body that a client with these headers gets."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        raise AssertionError

    given = [(name.encode(), value.encode()) for name, value in headers.items()]
    await JsonResponse(value)({"type": "http", "headers": given}, receive, send)
    start, body = sent
    return {name.decode(): value.decode() for name, value in start["headers"]}, body["body"]


@pytest.mark.parametrize("length", [MIN_COMPRESSED_BYTES, 2 * MAX_INLINE_BYTES])
async def test_large_json_is_compressed_for_the_console(length: int) -> None:
    headers, body = await send_json("x" * length, PAGE)
    assert gzip.decompress(body) == b'"%s"' % (b"x" * length)
    assert headers["content-length"] == str(len(body))
    assert (headers["content-encoding"], headers["vary"]) == ("gzip", "Accept-Encoding")


@pytest.mark.parametrize(
    ("length", "headers"),
    [
        (100, PAGE),
        (MIN_COMPRESSED_BYTES, {**PAGE, "accept-encoding": "br"}),
        (MIN_COMPRESSED_BYTES, {**PAGE, "sec-fetch-site": "cross-site"}),
        (MIN_COMPRESSED_BYTES, {"accept-encoding": "gzip"}),
    ],
)
async def test_other_json_is_not_compressed(length: int, headers: Mapping[str, str]) -> None:
    got, body = await send_json("x" * length, headers)
    assert body == b'"%s"' % (b"x" * length)
    assert "content-encoding" not in got
