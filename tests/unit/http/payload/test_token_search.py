"""The project token in the first and last bytes of a payload, in every wrapping."""

import base64
import gzip
import json
import random
import zlib
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.http.payload.raw import RawPayload
from hedgerow.http.payload.token_search import TokenHints, search_json, search_token
from tests.unit.generated import thorough
from tests.unit.http.payload.wrappings import lz64, multipart, raw_deflate

KEY = "phc_known"
# Random digits, so that compressed bodies are large, too.
FILLER = random.Random(1).randbytes(48_000).hex()
EVENT = {"event": "e", "distinct_id": "d", "properties": {"text": FILLER}}
FIRST = json.dumps({"api_key": KEY, "batch": [EVENT]}).encode()
LAST = json.dumps({"batch": [EVENT], "sentAt": "now", "api_key": KEY}).encode()
FORM = "application/x-www-form-urlencoded"


def search(data: bytes, compression: str = "", content_type: str = "") -> TokenHints:
    return search_token(RawPayload(data=data, compression=compression, content_type=content_type))


@pytest.mark.parametrize(
    ("body", "compression", "content_type"),
    [
        (FIRST, "", ""),
        (LAST, "", ""),
        (b"\xef\xbb\xbf \n" + LAST, "", ""),
        (LAST, "", FORM),
        (LAST, "base64", ""),
        (gzip.compress(FIRST), "", ""),
        (gzip.compress(FIRST), "gzip-js", "text/plain"),
        (gzip.compress(gzip.compress(FIRST)), "", ""),
        (zlib.compress(FIRST), "deflate", ""),
        (raw_deflate(FIRST), "deflate", ""),
        (base64.b64encode(FIRST), "", ""),
        (base64.encodebytes(FIRST), "", ""),
        (base64.urlsafe_b64encode(gzip.compress(FIRST)), "", ""),
        (gzip.compress(base64.b64encode(FIRST)), "", ""),
        (quote(FIRST).encode(), "", ""),
        (lz64(FIRST.decode()), "lz64", ""),
        (b"data=" + quote_plus(FIRST).encode(), "", FORM),
        (b"ver=1&data=" + quote_plus(base64.b64encode(FIRST)).encode(), "", FORM),
        (b"data=%s&compression=lz64" % quote_plus(lz64(FIRST.decode())).encode(), "", ""),
        (b"data=%s&api_key=phc_known" % quote_plus(json.dumps(EVENT)).encode(), "", FORM),
        (b"token=phc_known&data=%s" % quote_plus(json.dumps(EVENT)).encode(), "", FORM),
        (gzip.compress(b"token=phc_known&data=" + b"e30" * 90_000), "", FORM),
        (multipart(data=FIRST), "", "multipart/form-data; boundary=b"),
        (multipart(api_key=b"phc_known", data=b"[]"), "", "multipart/form-data; boundary=b"),
        (multipart(data=LAST, token=b"phc_known"), "", "multipart/form-data; boundary=b"),
    ],
)
def test_token_is_found_in_every_wrapping(body: bytes, compression: str, content_type: str) -> None:
    assert search(body, compression, content_type).decisive == KEY


def test_compressed_end_is_not_read() -> None:
    assert search(gzip.compress(LAST)) == TokenHints()


@pytest.mark.parametrize(
    ("value", "decisive", "others"),
    [
        ({"token": "a", "batch": []}, "a", ()),
        ({"$token": " a ", "api_key": "b"}, "a", ()),
        ({"batch": [{"api_key": "a"}]}, None, ("a",)),
        ({"batch": [{"token": "a"}], "api_key": "b"}, "b", ("a",)),
        ({"event": "e", "properties": {"token": "a"}}, None, ("a",)),
        ({"event": '"api_key":"a"', "b": '{"token":"c"}'}, None, ()),
        ({"a": 'x\\"', "api_key": "b"}, "b", ()),
        ([{"event": "e", "properties": {"token": "a"}}, {"event": "f"}], "a", ("a",)),
        ([{"event": "e", "api_key": "a"}], "a", ()),
        ([{"event": "e"}, {"api_key": "a"}], "a", ()),
        ([{"event": "e"}, {"properties": {"token": "a"}}], None, ("a",)),
        ([[{"api_key": "a"}]], None, ("a",)),
        ({"api_key": 5, "token": ""}, None, ()),
        ([], None, ()),
    ],
)
def test_place_decides_whether_a_token_counts(
    value: Any, decisive: str | None, others: tuple[str, ...]
) -> None:
    text = json.dumps(value, separators=(",", ":")).encode()
    assert search_json(text, b"") == TokenHints(decisive, others)


@pytest.mark.parametrize(
    ("end", "token"),
    [
        (b'"x"}],"api_key":"a"}', "a"),
        (b'"x"}],"api_key" : "a" , "c":{"d":["}"]} }', "a"),
        (b'"x","api_key":"a"}]}', None),
        (b'"{\\"api_key\\":\\"a\\"}"}', None),
        (b'"x"}], "b": "\\"api_key\\":"}', None),
    ],
)
def test_token_at_the_end_counts_at_the_top_level_only(end: bytes, token: str | None) -> None:
    assert search_json(b'{"batch":[{"event":', end).decisive == token


@given(st.binary(max_size=100), st.sampled_from(["", "gzip", "deflate", "lz64", "base64", "?"]))
@thorough
def test_any_bytes_are_searched_without_an_error(data: bytes, compression: str) -> None:
    for body in (data, b"{" + data, b"[" + data, gzip.compress(data), b"data=" + data):
        for content_type in ("", FORM, "multipart/form-data; boundary=b"):
            search(body, compression, content_type)
            search(body[:-3], compression, content_type)
