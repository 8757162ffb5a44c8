"""Whoever takes events forgives more: an unknown compression, and what nests too deep."""

import base64
import gzip
import json

import pytest

from hedgerow.http.payload.errors import MalformedData
from hedgerow.http.payload.reader import PayloadReader
from hedgerow.lib import jsonio
from tests.unit.http.asgi import http_scope, receiving

LIMIT = 100_000
FORGIVING = PayloadReader(
    max_bytes=LIMIT, max_unpacked_bytes=LIMIT, timeout_s=60, is_forgiving=True
)
VALUE = {"token": "phc_x", "text": "ü+/=& 😀"}
BODY = json.dumps(VALUE).encode()


@pytest.mark.parametrize(("query", "encoding"), [(b"compression=br", ""), (b"", "zstd")])
async def test_the_forgiving_take_no_notice_of_an_unknown_compression(
    query: bytes, encoding: str
) -> None:
    scope = http_scope("POST", query=query, headers={"Content-Encoding": encoding})
    for body in (BODY, gzip.compress(BODY), base64.b64encode(BODY)):
        assert await FORGIVING.read(scope, receiving(body)) == VALUE


async def test_the_forgiving_cut_what_is_too_deep_and_keep_the_rest() -> None:
    odd = rb'"\"][\\"'
    for opening, closing in ((b"[", b"]"), (b'{"a]":', b"}"), (b'[{"[":', b"}]")):
        deep = opening * 150 + b"1" + closing * 150
        body = b'[%s, {"a": %s, "b": %s}, %s, 2]' % (odd, deep, odd, deep)
        for wrapped in (body, gzip.compress(body), base64.b64encode(body)):
            text, found, again, number = await FORGIVING.read(
                http_scope("POST"), receiving(wrapped)
            )
            assert (text, found["b"], number) == ('"][\\', '"][\\', 2)
            assert jsonio.is_deeper(found["a"], jsonio.MAX_DEPTH)
            assert not jsonio.is_deeper(found["a"], jsonio.MAX_DEPTH + 4)
            assert jsonio.is_deeper(again, jsonio.MAX_DEPTH)


@pytest.mark.parametrize("body", [b"[" * 500, b"[" * 500 + b"]" * 499, b'["' + b"[" * 500])
async def test_the_forgiving_refuse_what_has_no_end(body: bytes) -> None:
    with pytest.raises(MalformedData):
        await FORGIVING.read(http_scope("POST"), receiving(body))


async def test_the_forgiving_leave_halves_of_characters_to_who_can_tell_of_them() -> None:
    body = rb'{"a": "x\ud83d", "\udfff": ["\ud83d\ude00"]}'
    found = await FORGIVING.read(http_scope("POST"), receiving(body))
    assert found == {"a": "x\ud83d", "\udfff": ["😀"]}
