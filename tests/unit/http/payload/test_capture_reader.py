"""The lenient reader of capture: it accepts unknown compressions and cuts deep nesting."""

import base64
import gzip
import json

import pytest

from hedgerow.http.payload.errors import MalformedData
from hedgerow.http.payload.limits import CAPTURE_LIMITS
from hedgerow.lib import jsonio
from tests.unit.http.asgi import http_scope, make_receive
from tests.unit.http.payload.readers import make_reader

LIMIT = 100_000
FORGIVING = make_reader(CAPTURE_LIMITS, max_bytes=LIMIT, is_lenient=True)
VALUE = {"token": "phc_x", "text": "ü+/=& 😀"}
BODY = json.dumps(VALUE).encode()


@pytest.mark.parametrize(("query", "encoding"), [(b"compression=br", ""), (b"", "zstd")])
async def test_lenient_reader_ignores_unknown_compression(query: bytes, encoding: str) -> None:
    scope = http_scope("POST", query=query, headers={"Content-Encoding": encoding})
    for body in (BODY, gzip.compress(BODY), base64.b64encode(BODY)):
        assert await FORGIVING.read(scope, make_receive(body)) == VALUE


async def test_lenient_reader_cuts_deep_nesting_and_keeps_the_rest() -> None:
    odd = rb'"\"][\\"'
    for opening, closing in ((b"[", b"]"), (b'{"a]":', b"}"), (b'[{"[":', b"}]")):
        deep = opening * 150 + b"1" + closing * 150
        body = b'[%s, {"a": %s, "b": %s}, %s, 2]' % (odd, deep, odd, deep)
        sparse = body.replace(b"1", b'"%s"' % (b"a" * 30_000))
        for wrapped in (body, sparse, gzip.compress(body), base64.b64encode(body)):
            text, found, again, number = await FORGIVING.read(
                http_scope("POST"), make_receive(wrapped)
            )
            assert (text, found["b"], number) == ('"][\\', '"][\\', 2)
            assert jsonio.is_deeper_than(found["a"], jsonio.MAX_DEPTH)
            assert not jsonio.is_deeper_than(found["a"], jsonio.MAX_DEPTH + 4)
            assert jsonio.is_deeper_than(again, jsonio.MAX_DEPTH)


@pytest.mark.parametrize("body", [b"[" * 500, b"[" * 500 + b"]" * 499, b'["' + b"[" * 500])
async def test_lenient_reader_rejects_unterminated_json(body: bytes) -> None:
    with pytest.raises(MalformedData):
        await FORGIVING.read(http_scope("POST"), make_receive(body))


async def test_lenient_reader_keeps_lone_surrogates() -> None:
    body = rb'{"a": "x\ud83d", "\udfff": ["\ud83d\ude00"]}'
    found = await FORGIVING.read(http_scope("POST"), make_receive(body))
    assert found == {"a": "x\ud83d", "\udfff": ["😀"]}
