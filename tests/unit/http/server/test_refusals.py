"""Heads that are refused without a parser: only those whose end is beyond doubt."""

import pytest

from hedgerow.http.server.refusals import SimpleHead, parse_simple_head


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (
            b"POST /e/?ip=1 HTTP/1.1\r\nHost: x\r\nCONTENT-LENGTH: 12",
            SimpleHead(path="/e/", body_bytes=12, closes=False),
        ),
        (
            b"GET /decide HTTP/1.1\r\nHost: x\r\nConnection: Close",
            SimpleHead(path="/decide", body_bytes=0, closes=True),
        ),
        (
            b"GET / HTTP/1.1\r\nConnection: keep-alive\r\nX-Connection: close",
            SimpleHead(path="/", body_bytes=0, closes=False),
        ),
    ],
)
def test_simple_head_is_parsed(head: bytes, expected: SimpleHead) -> None:
    assert parse_simple_head(head) == expected


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
    assert parse_simple_head(head) is None


@pytest.mark.parametrize("head", [b"", b"hello", b"GET /"])
def test_incomplete_head_is_left_to_the_parser(head: bytes) -> None:
    assert parse_simple_head(head) is None
