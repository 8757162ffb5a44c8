"""Heads that are refused without a parser: only those whose end is beyond doubt."""

import pytest

from hedgerow.http.server.refusals import SimpleHead, find_simple_head, parse_simple_head


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (
            b"POST /e/?ip=1 HTTP/1.1\r\nHost: x\r\nCONTENT-LENGTH: 12\r\n\r\n",
            ("/e/", 12, False),
        ),
        (
            b"GET /decide HTTP/1.1\r\nHost: x\r\nConnection: Close\r\n\r\n",
            ("/decide", 0, True),
        ),
        (
            b"GET / HTTP/1.1\r\nConnection: keep-alive\r\nX-Connection: close\r\n\r\n",
            ("/", 0, False),
        ),
    ],
)
def test_simple_head_is_parsed(head: bytes, expected: tuple[str, int, bool]) -> None:
    path, body_bytes, closes = expected
    found = find_simple_head(head + b"x" * body_bytes)
    assert found == SimpleHead(
        raw=head, path=path, request_bytes=len(head) + body_bytes, closes=closes
    )
    assert find_simple_head(head + b"x" * (body_bytes + 1)) is None


@pytest.mark.parametrize(
    "head",
    [
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked",
        b"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2",
        b"POST / HTTP/1.1\r\nContent-Length: -1",
        b"POST / HTTP/1.1\r\nContent-Length: 1, 1",
        b"POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 1",
        b"GET / HTTP/1.1\r\nConnection: upgrade\r\nUpgrade: h2c",
        b"GET / HTTP/1.0\r\nHost: x",
        b"HEAD / HTTP/1.1\r\nHost: x",
        b"GET http://x/ HTTP/1.1\r\nHost: x",
    ],
)
def test_any_other_head_is_left_to_the_parser(head: bytes) -> None:
    assert parse_simple_head(head + b"\r\n\r\n") is None


@pytest.mark.parametrize("head", [b"", b"hello", b"GET /"])
def test_incomplete_head_is_left_to_the_parser(head: bytes) -> None:
    assert find_simple_head(head) is None
