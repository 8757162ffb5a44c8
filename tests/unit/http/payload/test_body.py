import asyncio
from typing import Any

import pytest
from starlette.requests import ClientDisconnect, Request
from starlette.types import Message

from hedgerow.errors import AppError, Malformed, RequestTimeout, TooLarge, UnsupportedMediaType
from hedgerow.http.payload.body import MAX_DOCUMENT_BYTES, BodyReader
from hedgerow.http.payload.body_memory import BodyMemory
from hedgerow.http.payload.forms import MAX_FORM_FIELDS
from hedgerow.http.server.proxies import Origins
from tests.unit.http.asgi import http_scope, make_request

FORM = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data; boundary=b"


def make_body_reader(max_bytes: int = 100_000, timeout_s: float = 60) -> BodyReader:
    return BodyReader(max_bytes, timeout_s, BodyMemory(), Origins((), ""))


READER = make_body_reader()


def posted(body: bytes, content_type: str | None = None, **headers: str) -> Request:
    if content_type is not None:
        headers["Content-Type"] = content_type
    return make_request(http_scope("POST", headers=headers), body)


def part(name: str, value: str, more: str = "") -> str:
    return f'--b\r\nContent-Disposition: form-data; name="{name}"{more}\r\n\r\n{value}\r\n'


@pytest.mark.parametrize(
    ("body", "content_type", "value"),
    [
        (b'{"a": 1}', None, {"a": 1}),
        (b'{"a": 1}', "application/json", {"a": 1}),
        (b'{"a": 1}', "Application/JSON; charset=utf-8", {"a": 1}),
        (b'{"a": 1}', "application/merge-patch+json", {"a": 1}),
        (b"[1]", "application/json", [1]),
        (b"null", "application/json", None),
        (b"", "application/json", {}),
        (b"", "text/plain", {}),
        (b"a=1&b=x+y%26&c=&a=2", FORM, {"a": ["1", "2"], "b": ["x y&"], "c": [""]}),
        (
            (part("a", "1") + part("b", "ü") + "--b--\r\n").encode(),
            MULTIPART,
            {"a": ["1"], "b": ["ü"]},
        ),
    ],
)
async def test_body_is_the_same_from_json_and_forms(
    body: bytes, content_type: str | None, value: Any
) -> None:
    assert await READER.value(posted(body, content_type)) == value


async def test_uploaded_file_is_text() -> None:
    assert await READER.value(posted(FILE.encode(), MULTIPART)) == {"f": ["data"]}


FILE = part("f", "data", '; filename="x.txt"') + "--b--\r\n"
CROWD = "".join(part(f"a{n}", "1") for n in range(MAX_FORM_FIELDS + 1)) + "--b--\r\n"


@pytest.mark.parametrize(
    ("body", "content_type", "kind", "detail"),
    [
        (b"{", "application/json", Malformed, "JSON parse error - "),
        (b'{"a":' * 10_001, None, Malformed, "JSON parse error - nested deeper than 100 levels"),
        (b"\xff", None, Malformed, "JSON parse error - invalid UTF-8 at byte 0"),
        (b"a=%ff", FORM, Malformed, "Form parse error - not a valid form body"),
        (b"a=\xff", FORM, Malformed, "Form parse error - not a valid form body"),
        (b"&".join([b"a=1"] * (MAX_FORM_FIELDS + 1)), FORM, Malformed, "Form parse error - "),
        (b"x", "multipart/form-data", Malformed, "Multipart form parse error - "),
        (b"no parts", MULTIPART, Malformed, "Multipart form parse error - "),
        (2 * FILE.encode()[:-7] + b"--b--\r\n", MULTIPART, Malformed, "Multipart form parse error"),
        (CROWD.encode(), MULTIPART, Malformed, "Multipart form parse error - "),
        (
            b"x",
            "text/plain; charset=utf-8",
            UnsupportedMediaType,
            'Unsupported media type "text/plain; charset=utf-8" in request.',
        ),
        (b"x", "a" * 500, UnsupportedMediaType, f'Unsupported media type "{"a" * 200}" in request'),
    ],
)
async def test_unreadable_body_is_rejected_with_the_reason(
    body: bytes, content_type: str | None, kind: type[AppError], detail: str
) -> None:
    with pytest.raises(kind) as raised:
        await READER.value(posted(body, content_type))
    assert raised.value.detail.startswith(detail)


async def test_compressed_body_is_rejected() -> None:
    with pytest.raises(UnsupportedMediaType, match="Compressed"):
        await READER.value(posted(b"\x1f\x8b", **{"Content-Encoding": "gzip"}))


async def test_body_is_read_once_per_request() -> None:
    request = make_request(http_scope("POST"), b'{"a"', b": 1}")
    assert await READER.value(request) == {"a": 1}
    assert await READER.value(request) == {"a": 1}


@pytest.mark.parametrize("announced", ["11", "9" * 30])
async def test_content_length_over_the_limit_is_rejected_unread(announced: str) -> None:
    request = posted(b"", **{"Content-Length": announced})
    with pytest.raises(TooLarge, match="larger than 10 bytes"):
        await make_body_reader(10).value(request)


async def test_body_of_exactly_the_limit_is_accepted() -> None:
    request = posted(b'"12345678"', **{"Content-Length": "10"})
    assert await make_body_reader(10).value(request) == "12345678"


async def test_body_that_exceeds_the_limit_is_rejected() -> None:
    request = make_request(http_scope("POST"), b'"12345', b"6789", b'"')
    with pytest.raises(TooLarge):
        await make_body_reader(10).value(request)


async def test_body_that_never_arrives_times_out() -> None:
    async def nothing() -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    with pytest.raises(RequestTimeout):
        await make_body_reader(10, 0.001).value(Request(http_scope("POST"), nothing))


async def test_client_disconnect_is_not_a_body_error() -> None:
    async def gone() -> Message:
        return {"type": "http.disconnect"}

    with pytest.raises(ClientDisconnect):
        await READER.value(Request(http_scope("POST"), gone))


@pytest.mark.parametrize(
    "body",
    [
        b"[" + b"1," * 50_001 + b"1]",
        b"[" + b"[]," * 10_000 + b"1]",
        b'{"b":[' + b'{"a":{}},' * 5_001 + b"1]}",
    ],
)
@pytest.mark.parametrize("content_type", ["application/json", FORM])
async def test_body_of_many_values_is_rejected(body: bytes, content_type: str) -> None:
    if content_type == FORM and not body.startswith(b"{"):
        body = b'{"a":' + body + b"}"
    with pytest.raises(TooLarge, match="more than 10000 objects or 50000 values"):
        await make_body_reader(1 << 20).value(posted(body, content_type))


async def test_only_multipart_forms_exceed_the_limit_of_documents() -> None:
    reader = make_body_reader(4 * MAX_DOCUMENT_BYTES)
    text = "x" * 2 * MAX_DOCUMENT_BYTES
    body = (part("csv", text, '; filename="x.csv"') + "--b--\r\n").encode()
    assert await reader.value(posted(body, MULTIPART)) == {"csv": [text]}
    for content_type in ("application/json", FORM, None):
        with pytest.raises(TooLarge, match="larger than 1048576 bytes"):
            await reader.value(posted(b'"%s"' % text.encode(), content_type))
