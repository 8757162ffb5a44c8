import msgspec
import pytest

from hedgerow.http.server.response import (
    JSON_TYPE,
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
