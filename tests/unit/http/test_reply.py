import msgspec
import pytest

from hedgerow.http.reply import JSON_TYPE, JsonResponse, json_reply, no_content, reply


class Point(msgspec.Struct):
    y: int
    x: int


def test_a_json_reply_knows_its_type_and_length() -> None:
    answer = json_reply(201, {"name": "ü"}, (b"x-a", b"1"))
    assert answer.status == 201
    assert answer.body == '{"name":"ü"}'.encode()
    assert answer.headers == ((b"content-length", b"13"), JSON_TYPE, (b"x-a", b"1"))


def test_an_answer_without_content_has_no_length() -> None:
    """RFC 9110, 8.6: a server must not send Content-Length with 204."""
    assert b"content-length" not in dict(reply(204, b"").headers)
    assert "content-length" not in no_content().headers


@pytest.mark.parametrize(
    ("value", "body"),
    [(Point(2, 1), b'{"y":2,"x":1}'), ([None, True], b"[null,true]"), ({}, b"{}")],
)
def test_a_response_keeps_the_order_of_fields(value: object, body: bytes) -> None:
    response = JsonResponse(value)
    assert response.body == body
    assert response.headers["content-type"] == "application/json"
