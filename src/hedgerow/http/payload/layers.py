"""What a payload is wrapped in: gzip, deflate, lz64, base64, a form, several of these."""

import zlib
from binascii import a2b_base64
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Any

from hedgerow.http.payload.documents import OPENERS, json_value
from hedgerow.http.payload.errors import MalformedData, NoData, too_large_unpacked
from hedgerow.http.payload.forms import field_text, form_fields, unquote, urlencoded, with_token
from hedgerow.http.payload.lz64 import BASE64, unpack_lz64

# base64 in a form in gzip is three; nobody wraps more often than this.
MAX_LAYERS = 5
# Of gzip. What is left is copied after each.
MAX_MEMBERS = 100

# What a hint may say, and which layer it speaks of. base64 is recognised without being announced.
_HINTS = {
    "": "",
    "identity": "",
    "base64": "",
    "b64": "",
    "gzip": "gzip",
    "gzip-js": "gzip",
    "x-gzip": "gzip",
    "deflate": "deflate",
    "lz64": "lz64",
    "lz-string": "lz64",
}
KNOWN_COMPRESSIONS = ("gzip", "gzip-js", "deflate", "lz64", "base64")

_GZIP_MAGIC = b"\x1f\x8b\x08"
_GZIP, _ZLIB, _RAW = 31, 15, -15
_BOM = b"\xef\xbb\xbf"
_FROM_URL_SAFE = bytes.maketrans(b"-_", b"+/")


def decode(
    body: bytes,
    *,
    content_type: str = "",
    compression: str = "",
    content_encoding: str = "",
    max_unpacked: int,
    is_forgiving: bool = False,
) -> Any:
    """The JSON value in a body. `compression` is the query's hint; it goes before the form's, and
    that before `content_encoding`, the header."""
    if not compression and not content_encoding and body.startswith(OPENERS):
        return json_value(body, is_forgiving)
    # PostHog sees that a body is gzip without being told, and so must we: posthog-js tells nobody.
    was_gzip = body.startswith(_GZIP_MAGIC)
    if was_gzip:
        body = _inflate(body, _GZIP, max_unpacked)
    if not body.strip():
        raise NoData
    fields = form_fields(body, content_type)
    said = compression or field_text(fields, "compression") or content_encoding
    hint = _hint(said, is_forgiving=is_forgiving)
    if was_gzip and hint == "gzip":
        hint = ""
    value = _unwrap(fields.get("data", body), hint, max_unpacked, is_forgiving=is_forgiving)
    return with_token(value, fields)


def decode_query(query_string: bytes, *, max_unpacked: int, is_forgiving: bool = False) -> Any:
    """The JSON value in a query's `data`, of which `compression` tells how it is wrapped. `ip`
    says nothing that counts; for `_` see `sent_at_ms`."""
    fields = urlencoded(query_string)
    if not fields.get("data", b"").strip():
        raise NoData
    hint = _hint(field_text(fields, "compression"), is_forgiving=is_forgiving)
    value = _unwrap(fields["data"], hint, max_unpacked, is_forgiving=is_forgiving)
    return with_token(value, fields)


def _hint(name: str, *, is_forgiving: bool) -> str:
    hint = _HINTS.get(name.strip().lower(), "" if is_forgiving else None)
    if hint is None:
        known = ", ".join(KNOWN_COMPRESSIONS)
        raise MalformedData(f'unknown compression "{name[:40]}"; known are {known}.')
    return hint


def _unwrap(
    data: bytes, hint: str, limit: int, layers: int = MAX_LAYERS, *, is_forgiving: bool
) -> Any:
    """Take off one layer after the other until there is JSON. A hint must prove true."""
    if not layers:
        raise MalformedData("it is wrapped too many times.")
    within = partial(_unwrap, limit=limit, layers=layers - 1, is_forgiving=is_forgiving)
    if data.startswith(_GZIP_MAGIC):
        return within(_inflate(data, _GZIP, limit), "" if hint == "gzip" else hint)
    if hint == "lz64":
        return within(unpack_lz64(data, limit), "")
    text = data.removeprefix(_BOM).lstrip()
    if not hint:
        if text.startswith(OPENERS):
            return json_value(text, is_forgiving)
        if b"%" in data and (unquoted := unquote(data)) != data:
            return within(unquoted, hint)
    for plain in _base64_readings(data):
        with suppress(MalformedData):
            return within(plain, hint)
    if hint == "deflate":
        return within(_inflate_any(data, limit), "")
    if hint == "gzip":
        raise MalformedData("it is announced as gzip and is not.")
    return json_value(text, is_forgiving)


def _base64_readings(data: bytes) -> Iterator[bytes]:
    """What the data may be as base64. A space was a plus sign before a form was decoded, or else
    it was put in to break a line; the reading that makes sense is the right one."""
    data = data.translate(_FROM_URL_SAFE, b"\r\n\t")
    for text in dict.fromkeys((data.replace(b" ", b"+"), data.replace(b" ", b""))):
        digits = text.rstrip(b"=")
        if digits and len(digits) % 4 != 1 and not digits.translate(None, BASE64):
            yield a2b_base64(digits + b"=" * (-len(digits) % 4))


def _inflate(data: bytes, kind: int, limit: int) -> bytes:
    """Gzip may have several members, one after another; what stands behind the last counts as
    nothing."""
    members: list[bytes] = []
    room = limit
    for _ in range(MAX_MEMBERS):
        stream = zlib.decompressobj(kind)
        try:
            plain = stream.decompress(data, room + 1)
        except zlib.error:
            raise MalformedData("the compressed data is damaged.") from None
        if len(plain) > room:
            raise too_large_unpacked(limit)
        if not stream.eof:
            raise MalformedData("the compressed data was cut short.")
        members.append(plain)
        room -= len(plain)
        data = stream.unused_data
        if kind != _GZIP or not data.startswith(_GZIP_MAGIC):
            return plain if len(members) == 1 else b"".join(members)
    raise MalformedData(f"the compressed data has more than {MAX_MEMBERS} members.")


def _inflate_any(data: bytes, limit: int) -> bytes:
    """ "deflate" means the zlib format, and some clients send the bare stream."""
    with suppress(MalformedData):
        return _inflate(data, _ZLIB, limit)
    return _inflate(data, _RAW, limit)
