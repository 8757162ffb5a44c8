import asyncio
import base64
import json
import random
import time
import tracemalloc
import zlib
from contextlib import suppress
from typing import Any
from urllib.parse import quote, quote_plus, unquote_to_bytes, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from starlette.requests import ClientDisconnect
from starlette.types import Message

from hedgerow.errors import AppError, RequestTimeout, TooLarge
from hedgerow.http.payload.errors import MalformedData, NoData
from hedgerow.http.payload.forms import parse_sent_at_ms, unquote
from hedgerow.http.payload.layers import MAX_LAYERS, decode
from hedgerow.http.payload.limits import PayloadLimits
from hedgerow.http.payload.lz64 import MAX_LZ64_BYTES, unpack_lz64
from hedgerow.http.payload.raw import RawPayload
from hedgerow.lib import jsonio
from tests.unit.generated import thorough
from tests.unit.http.asgi import http_scope, make_receive
from tests.unit.http.payload.readers import make_reader
from tests.unit.http.payload.wrappings import gzipped, lz64, multipart, raw_deflate

LIMIT = 1024 * 1024
LIMITS = PayloadLimits(max_unpacked_bytes=LIMIT, max_objects=LIMIT, max_values=LIMIT)
READER = make_reader(LIMITS, max_bytes=LIMIT)
FORM = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data; boundary=b"


VALUE = {"token": "phc_x", "distinct_id": "ü>?~😀", "n": [1, 2.5, None, True]}
BODY = json.dumps(VALUE, ensure_ascii=False).encode()
GZIP = gzipped(BODY)
BASE64 = base64.b64encode(BODY)


LZ64 = lz64(BODY.decode())


def read(body: bytes, content_type: str = "", compression: str = "", encoding: str = "") -> Any:
    raw = RawPayload(
        data=body, content_type=content_type, compression=compression, content_encoding=encoding
    )
    return decode(raw, LIMITS)


def read_query(query: bytes) -> Any:
    return decode(RawPayload(data=query, is_query=True), LIMITS)


def read_refusal(body: bytes, *how: str) -> AppError:
    with pytest.raises(AppError) as raised:
        read(body, *how)
    return raised.value


@pytest.mark.parametrize(
    "content_type",
    ["", "application/json", "Application/JSON; charset=utf-8", "text/plain", FORM, "image/png"],
)
def test_plain_json_is_read_with_any_content_type(content_type: str) -> None:
    assert read(BODY, content_type) == VALUE
    assert read(b"[" + BODY + b"]", content_type) == [VALUE]
    assert read(b"\xef\xbb\xbf \n" + BODY, content_type) == VALUE


@pytest.mark.parametrize(
    ("body", "hint"),
    [
        (GZIP, "gzip"),
        (GZIP, "gzip-js"),
        (GZIP, "GZIP"),
        (GZIP, "x-gzip"),
        (GZIP, ""),
        (GZIP, "identity"),
        (GZIP, "base64"),
        (GZIP + b"rest", "gzip"),
        (gzipped(BODY[:9]) + gzipped(b"") + gzipped(BODY[9:]), ""),
        (gzipped(BODY[:9]) + gzipped(BODY[9:]) + b"rest", "gzip"),
        (zlib.compress(BODY), "deflate"),
        (raw_deflate(BODY), "deflate"),
        (base64.b64encode(zlib.compress(BODY)), "deflate"),
        (LZ64, "lz64"),
        (LZ64, "lz-string"),
        (LZ64 + b"\n", "lz64"),
        (LZ64.replace(b"+", b" "), "lz64"),
        (quote(LZ64).encode(), "lz64"),
        (BASE64, "base64"),
        (BASE64, "b64"),
        (BASE64, ""),
        (BODY, "base64"),
        (BASE64.rstrip(b"="), ""),
        (base64.urlsafe_b64encode(BODY), ""),
        (base64.encodebytes(BODY), ""),
        (BASE64.replace(b"+", b" "), ""),
        (b" ".join([BASE64[:10], BASE64[10:]]), ""),
        (quote_plus(BASE64).encode(), ""),
        (quote(BODY).encode(), ""),
        (b"data=" + quote_plus(BASE64).encode(), ""),
        (base64.b64encode(GZIP), ""),
        (base64.b64encode(GZIP), "gzip"),
        (base64.b64encode(base64.b64encode(BODY)), ""),
        (gzipped(BASE64), "gzip"),
        (gzipped(b"data=" + quote_plus(BODY).encode()), "gzip"),
        (gzipped(LZ64), "lz64"),
        (gzipped(gzipped(BODY)), ""),
        (gzipped(GZIP), "gzip"),
    ],
)
@pytest.mark.parametrize("content_type", ["", "text/plain", FORM])
def test_every_wrapping_is_removed(body: bytes, hint: str, content_type: str) -> None:
    assert read(body, content_type, compression=hint) == VALUE
    assert read(body, content_type, encoding=hint) == VALUE


DATA = [
    (BODY, ""),
    (BASE64, ""),
    (BASE64, "base64"),
    (LZ64, "lz64"),
    (GZIP, "gzip"),
    (GZIP, ""),
    (base64.b64encode(GZIP), "gzip-js"),
    (zlib.compress(BODY), "deflate"),
]


@pytest.mark.parametrize(("data", "hint"), DATA)
def test_form_carries_data_and_an_optional_hint(data: bytes, hint: str) -> None:
    form = urlencode({"ver": "1.2", "data": data, "compression": hint, "_": "1"}).encode()
    assert read(form, FORM) == VALUE
    assert read(form) == read(urlencode({"data": data}).encode(), FORM, hint) == VALUE
    assert read(gzipped(form), FORM, encoding="gzip") == VALUE
    assert read(multipart(data=data, compression=hint.encode()), MULTIPART) == VALUE
    assert read(multipart(data=data), MULTIPART.replace("=b", '="b"'), hint) == VALUE
    assert read_query(form) == VALUE


def test_base64_in_a_form_survives_unquoted_plus_signs() -> None:
    value = {"a": "~~~>>>???"}
    data = base64.b64encode(json.dumps(value).encode() + b"   ")
    assert b"+" in data
    assert read(b"data=" + data, FORM) == value
    assert read(b"data=" + data.rstrip(b"="), FORM) == value


def test_multipart_part_may_be_a_file_with_line_breaks() -> None:
    body = (
        b'--b\r\nContent-Type: text/plain\r\nContent-Disposition: form-data; filename="blob"; '
        b'name="data"\r\n\r\n{"a":\r\n1}\r\n--b--'
    )
    assert read(body, MULTIPART) == {"a": 1}


def test_hint_precedence_is_query_form_header() -> None:
    form = urlencode({"data": LZ64, "compression": "lz64"}).encode()
    assert read(form, FORM, encoding="deflate") == VALUE
    assert read_refusal(form, FORM, "deflate").code == "malformed_data"
    assert read(zlib.compress(BODY), "", "deflate", "lz64") == VALUE


@pytest.mark.parametrize("name", ["api_key", "token"])
@pytest.mark.parametrize("data", [{}, {"a": 1}, {"api_key": "own"}, {"$token": "own"}])
def test_token_of_the_form_wins_over_token_in_the_data(name: str, data: dict[str, Any]) -> None:
    form = urlencode({"data": json.dumps(data), name: "k"}).encode()
    expected = {**data, "$token": "k"}
    assert read(form, FORM) == expected
    assert read_query(form) == expected
    parts = multipart(data=json.dumps(data).encode(), **{name: b"k"})
    assert read(parts, MULTIPART) == expected


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b'{"a": NaN, "b": [Infinity, -Infinity, 1.5]}', {"a": None, "b": [None, None, 1.5]}),
        (b"[1e999, -1e999, 1e-999]", [None, None, 0.0]),
        (b"[123456789012345678901234567890]", [123456789012345678901234567890]),
        (b"[" + b"9" * 4300 + b"]", [int("9" * 4300)]),
        (b"[" + b"9" * 4300 + b', "\\ud800"]', [int("9" * 4300), "\ufffd"]),
        (b'["\\ud83d\\ude00\\ud83d", "\\ude00x\\\\ud800"]', ["😀\ufffd", "\ufffdx\\ud800"]),
        (b'{"\\uD800": NaN, "b": "\\n\\u0000"}', {"\ufffd": None, "b": "\n\0"}),
        (b"null", None),
        (b"1234", 1234),
        (b'"50%"', "50%"),
        (b"[" * 100 + b"]" * 100, json.loads("[" * 100 + "]" * 100)),
        (b"[" + b"[]," * 500 + b'"]]][[["]', [[]] * 500 + ["]]][[["]),
        (json.dumps(['\\"' * 9 + "[" * 200]).encode(), ['\\"' * 9 + "[" * 200]),
        (json.dumps("[" * 200).encode(), "[" * 200),
    ],
)
def test_lenient_json_is_read_and_can_be_encoded(body: bytes, value: Any) -> None:
    assert read(body) == value
    assert read(b"\xef\xbb\xbf" + body) == value
    assert jsonio.parse(jsonio.encode(read(body))) == value


DEEP = "nested deeper than 100 levels"


@pytest.mark.parametrize(
    ("body", "hint", "reason"),
    [
        (b"{", "", "it is not JSON: Expecting property name"),
        (b"undefined", "gzip", "it is not gzip"),
        (b"hello, world", "", "it is not JSON"),
        (b"AAAA", "", "it is not JSON"),
        (b'["\xff"]', "", "invalid UTF-8 at byte 2"),
        (b'["\xed\xa0\x80"]', "", "invalid UTF-8 at byte 2"),
        (b"[" + b"9" * 4301 + b"]", "", "more than 4300 digits"),
        (b"[" * 101 + b"]" * 101, "", DEEP),
        (b'{"a":' * 101 + b"NaN" + b"}" * 101, "", DEEP),
        (b"[" * 101 + b'"\\ud800"' + b"]" * 101, "", DEEP),
        (b"[" * 101 + b'"%s"' % (b"a" * 9_000) + b"]" * 101, "", DEEP),
        (b"[" * 2_000 + b'"%s"' % (b"a" * 90_000) + b"]" * 2_000, "", DEEP),
        (b"[" * 100_000, "", DEEP),
        (b'{"a":' * 100_000, "", DEEP),
        (GZIP[:-1], "", "cut short"),
        (GZIP + GZIP[:-1], "", "cut short"),
        (gzipped(b"") * 101, "", "more than 100 members"),
        (GZIP[:-9], "gzip", "cut short"),
        (GZIP[:20] + b"\0" + GZIP[21:], "", "damaged"),
        (GZIP[:-8] + b"\0" * 8, "", "damaged"),
        (zlib.compress(BODY)[:-1], "deflate", ""),
        (BODY, "gzip", "it is not gzip"),
        (BODY, "deflate", "damaged"),
        (BODY, "lz64", "it is not lz64"),
        (GZIP, "lz64", "it is not lz64"),
        (GZIP, "deflate", ""),
        (LZ64, "gzip", "it is not gzip"),
        (LZ64, "", "it is not JSON"),
        (BASE64, "lz64", ""),
        (LZ64[:-8], "lz64", "lz64 data was cut short"),
        (b"////", "lz64", "lz64 data is damaged"),
        (b"====", "lz64", "it is not lz64"),
        (
            BODY,
            "br",
            'unknown compression "br". Expected one of: gzip, gzip-js, deflate, lz64, base64.',
        ),
        (BODY, "\x00\ud800" * 99, "unknown compression"),
        (b"%" * 2000, "", "not URL-encoded"),
    ],
)
def test_unreadable_payload_is_rejected_with_the_reason(
    body: bytes, hint: str, reason: str
) -> None:
    error = read_refusal(body, "", hint)
    assert isinstance(error, MalformedData)
    assert (error.status, error.type, error.code) == (400, "validation_error", "malformed_data")
    assert error.detail.startswith("Malformed request data: ")
    assert reason in error.detail
    assert read_refusal(body, "", "", hint).detail == error.detail


@pytest.mark.parametrize(
    ("body", "content_type", "reason"),
    [
        (b"data=", FORM, "it is not JSON"),
        (b"a=1&b=2", FORM, "it is not JSON"),
        (b"data=%", FORM, "it is not JSON"),
        (b"_=1&" * 1001, FORM, "more than 1000 fields"),
        (b"data=e30&compression=zip", FORM, 'unknown compression "zip"'),
        (multipart(data=BODY), "multipart/form-data", "has no boundary"),
        (multipart(data=BODY)[:-6], MULTIPART, "has no end"),
        (multipart(data=BODY) * 2, "multipart/form-data; boundary=c", "has no end"),
        (multipart(other=BODY), MULTIPART, 'no field "data"'),
        (b"--b--", MULTIPART, 'no field "data"'),
        (b"--b\r\n\r\n" * 1002 + b"--b--", MULTIPART, "has no end, or too many fields"),
    ],
)
def test_form_without_readable_data_is_rejected(
    body: bytes, content_type: str, reason: str
) -> None:
    assert reason in read_refusal(body, content_type).detail


def test_too_many_layers_are_rejected() -> None:
    body = BODY
    for _ in range(MAX_LAYERS + 1):
        body = gzipped(body)
    assert "too many times" in read_refusal(body).detail


BOMB_BYTES = 16 * LIMIT
BOMB = gzipped(bytes(BOMB_BYTES))


@pytest.mark.parametrize(
    ("body", "hint"),
    [
        (BOMB, ""),
        (BOMB, "gzip"),
        (base64.b64encode(BOMB), ""),
        (gzipped(BOMB), ""),
        (zlib.compress(bytes(BOMB_BYTES)), "deflate"),
        (raw_deflate(bytes(BOMB_BYTES)), "deflate"),
        (lz64("a" * (LIMIT + 1)), "lz64"),
        (b"A" * (MAX_LZ64_BYTES + 1), "lz64"),
    ],
)
def test_compression_bomb_is_rejected_before_it_expands(body: bytes, hint: str) -> None:
    tracemalloc.start()
    error = read_refusal(body, "", hint)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert isinstance(error, TooLarge)
    assert peak < 4 * LIMIT


def test_data_that_unpacks_to_exactly_the_limit_is_accepted() -> None:
    body = b'"' + b"a" * (LIMIT - 2) + b'"'
    assert read(gzipped(body)) == "a" * (LIMIT - 2)
    assert isinstance(read_refusal(gzipped(body + b" ")), TooLarge)
    short = lz64('"%s"' % ("a" * 998))
    packed = RawPayload(data=short, compression="lz64")
    assert decode(packed, replace(LIMITS, max_unpacked_bytes=1000)) == "a" * 998
    with pytest.raises(TooLarge):
        decode(packed, replace(LIMITS, max_unpacked_bytes=999))


@pytest.mark.parametrize(
    ("body", "hint"),
    [
        (b"[" + b"[]," * (LIMIT // 3 - 2) + b"1]", ""),
        (b"[" * LIMIT, ""),
        (b"A A " * (LIMIT // 4), ""),
        (b"%41" * (LIMIT // 3), ""),
        (b"%" * LIMIT, ""),
        (b"data=" + b"%25" * (LIMIT // 3), ""),
        (b"data=&" * (LIMIT // 6), ""),
        (gzipped(b"{}") * (LIMIT // 22), ""),
        (b"A" * MAX_LZ64_BYTES, "lz64"),
    ],
)
def test_hostile_body_at_the_limit_is_parsed_in_bounded_time(body: bytes, hint: str) -> None:
    started = time.process_time()
    with suppress(AppError):
        read(body, "", hint)
    assert time.process_time() - started < 10  # about 0.1 s on an idle machine


@given(st.text(st.characters(codec=None), max_size=200), st.sampled_from([1, 5, 40]))
@thorough
def test_lz64_decodes_the_output_of_the_reference_package(text: str, times: int) -> None:
    packed = lz64(text * times)
    plain = (text * times).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    assert unpack_lz64(packed, LIMIT).decode() == plain


def test_lz64_decodes_a_large_dictionary() -> None:
    chance = random.Random(1)
    text = "".join(chr(chance.choice((97, 98, 0x20AC, 0xFFFF))) for _ in range(60_000))
    assert unpack_lz64(lz64(text), LIMIT).decode() == text


@given(st.lists(st.sampled_from([b"%", b"=", b"4", b"1", b"g", b"\n", b"\r", b"\xff", b"_"])))
@thorough
def test_unquote_equals_urllib(pieces: list[bytes]) -> None:
    assert unquote(b"".join(pieces)) == unquote_to_bytes(b"".join(pieces))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=10,
)


@given(JSON.filter(lambda value: isinstance(value, dict | list)))
@thorough
def test_every_value_survives_every_wrapping(value: Any) -> None:
    text = json.dumps(value)
    body = text.encode()
    assert read(body) == read(gzipped(body)) == read(base64.b64encode(body)) == value
    assert read(lz64(text), "", "lz64") == read(zlib.compress(body), "", "deflate") == value
    assert read(urlencode({"data": body}).encode(), FORM) == value
    assert read(multipart(data=body), MULTIPART) == value


SEEDS = [
    BODY,
    GZIP,
    BASE64,
    LZ64,
    zlib.compress(BODY),
    base64.b64encode(GZIP),
    gzipped(BASE64),
    urlencode({"data": BASE64, "token": "t", "compression": "lz64"}).encode(),
    multipart(data=BODY, token=b"t"),
    b'[NaN, "\\ud800\\udc00\\ud800", 1e999, {"a": -0.0}]',
]
PIECES = [*b'{}[]"\\%+=& -_\x00\xff\x1f\x8b', *range(48, 58)]


def mutated(seed: bytes, chance: random.Random) -> bytes:
    body = bytearray(seed)
    for _ in range(chance.randrange(1, 5)):
        at = chance.randrange(len(body) + 1)
        match chance.randrange(4):
            case 0:
                body[at : at + 1] = bytes([chance.choice(PIECES)])
            case 1:
                body[at:at] = chance.randbytes(chance.randrange(4))
            case 2:
                del body[at : at + chance.randrange(8)]
            case _:
                body[at:at] = body[: chance.randrange(20)]
    return bytes(body)


@given(st.binary(max_size=60), st.integers(0, 2**32))
@thorough
def test_any_bytes_raise_only_app_errors(noise: bytes, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(100):
        body = mutated(chance.choice([*SEEDS, noise]), chance)
        content_type = chance.choice(
            ["", "application/json", FORM, MULTIPART, "multipart/form-data"]
        )
        hint = chance.choice(["", "", "gzip", "deflate", "lz64", "base64", "\udcff"])
        try:
            value = read(body, content_type, hint)
        except AppError:
            continue
        jsonio.parse(jsonio.encode(value))


@given(st.binary(max_size=200))
@thorough
def test_any_query_raises_only_app_errors(query: bytes) -> None:
    for text in (query, b"data=" + query, b"data=" + query + b"&compression=lz64&_=" + query):
        parse_sent_at_ms(text)
        with suppress(AppError):
            read_query(text)


def test_query_without_data_raises_no_data() -> None:
    for query in (b"", b"data=", b"data=+", b"ip=1&_=1", b"xdata=e30"):
        with pytest.raises(NoData):
            read_query(query)


@pytest.mark.parametrize(
    ("query", "sent_at"),
    [
        (b"ip=1&_=1700000000000&ver=1", 1700000000000),
        (b"sent_at=1700000000000", 1700000000000),
        (b"", None),
        (b"_=", None),
        (b"_=soon", None),
        (b"_=-1", None),
        (b"_=" + b"9" * 5000, None),
        ("_=²".encode(), None),
    ],
)
def test_query_carries_the_sent_time(query: bytes, sent_at: int | None) -> None:
    assert parse_sent_at_ms(query) == sent_at


@pytest.mark.parametrize(
    ("query", "headers", "body"),
    [
        (b"", {}, BODY),
        (b"v=3&_=1", {"Content-Type": "application/json", "Content-Length": "9"}, BODY),
        (b"", {"Content-Encoding": "gzip"}, GZIP),
        (b"", {"Content-Encoding": "identity"}, BODY),
        (b"v=3&compression=gzip-js", {"Content-Type": "text/plain"}, GZIP),
        (b"compression=lz64", {"Content-Encoding": "gzip"}, gzipped(LZ64)),
        (b"compression=", {"Content-Encoding": "deflate"}, zlib.compress(BODY)),
        (b"compression=base64", {"Content-Type": FORM}, b"data=" + quote_plus(BASE64).encode()),
        (b"", {"Content-Type": MULTIPART}, multipart(data=BASE64)),
        (b"data=&ip=1", {}, BODY),
        (b"data=" + quote_plus(BASE64).encode(), {}, b""),
        (b"compression=lz64&data=" + quote_plus(LZ64).encode(), {}, b"[1]"),
    ],
)
async def test_payload_is_read_from_query_headers_and_body(
    query: bytes, headers: dict[str, str], body: bytes
) -> None:
    scope = http_scope("POST", query=query, headers=headers)
    assert await READER.read(scope, make_receive(body)) == VALUE
    assert await READER.read(scope, make_receive(body[:7], b"", body[7:])) == VALUE


@pytest.mark.parametrize(("query", "encoding"), [(b"compression=br", ""), (b"", "zstd")])
async def test_unknown_compression_is_rejected_even_for_plain_json(
    query: bytes, encoding: str
) -> None:
    scope = http_scope("POST", query=query, headers={"Content-Encoding": encoding})
    with pytest.raises(MalformedData, match="unknown compression"):
        await READER.read(scope, make_receive(BODY))


@pytest.mark.parametrize("body", [b"", b" \n", gzipped(b"")])
@pytest.mark.parametrize("content_type", ["", FORM, MULTIPART])
async def test_empty_body_raises_no_data(body: bytes, content_type: str) -> None:
    scope = http_scope("POST", headers={"Content-Type": content_type})
    with pytest.raises(NoData) as raised:
        await READER.read(scope, make_receive(body))
    assert (raised.value.status, raised.value.code) == (400, "no_data")


async def delay(message: Message) -> Message:
    await asyncio.sleep(0)
    await asyncio.sleep(0.001)
    return message


async def test_body_may_arrive_late() -> None:
    inner = make_receive(BODY[:5], BODY[5:9], BODY[9:])

    async def receive() -> Message:
        return await delay(await inner())

    assert await READER.read(http_scope("POST"), receive) == VALUE


class Stalled:
    """A client that sends these chunks and then stalls."""

    def __init__(self, *pieces: bytes) -> None:
        self.pieces = list(pieces)
        self.let_go = False

    async def receive(self) -> Message:
        if self.pieces:
            return {"type": "http.request", "body": self.pieces.pop(), "more_body": True}
        try:
            await asyncio.Event().wait()
        finally:
            self.let_go = True
        raise AssertionError


@pytest.mark.parametrize("client", [Stalled(), Stalled(b"{")])
async def test_body_that_never_ends_times_out(client: Stalled) -> None:
    reader = make_reader(LIMITS, max_bytes=10, timeout_s=0.001)
    with pytest.raises(RequestTimeout):
        await reader.read(http_scope("POST"), client.receive)
    assert client.let_go


async def test_cancelled_reader_releases_its_slot() -> None:
    client = Stalled()
    task = asyncio.ensure_future(READER.read(http_scope("POST"), client.receive))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert client.let_go


@pytest.mark.parametrize("late", [False, True])
async def test_client_disconnect_is_not_a_body_error(late: bool) -> None:
    async def gone() -> Message:
        message: Message = {"type": "http.disconnect"}
        return await delay(message) if late else message

    with pytest.raises(ClientDisconnect):
        await READER.read(http_scope("POST"), gone)


async def test_limit_applies_to_content_length_and_received_bytes() -> None:
    reader = make_reader(LIMITS, max_bytes=10)
    assert await reader.read(http_scope("POST"), make_receive(b'"12345', b'678"')) == "12345678"
    with pytest.raises(TooLarge, match="larger than 10 bytes"):
        await reader.read(http_scope("POST"), make_receive(b'"12345', b'6789"'))
    for announced in ("11", "9" * 30):
        scope = http_scope("POST", headers={"Content-Length": announced})
        with pytest.raises(TooLarge, match="larger than 10 bytes"):
            await reader.read(scope, make_receive(b"{}"))
