"""The layers around a payload: gzip, deflate, lz64, base64 and forms, in any combination."""

import zlib
from binascii import a2b_base64
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

from hedgerow.http.payload.documents import OPENERS, parse_json
from hedgerow.http.payload.errors import MalformedData, NoData, unpacked_too_large_error
from hedgerow.http.payload.forms import (
    add_token,
    parse_urlencoded,
    read_field,
    read_form_fields,
    unquote,
)
from hedgerow.http.payload.limits import PayloadLimits
from hedgerow.http.payload.lz64 import BASE64, unpack_lz64
from hedgerow.http.payload.raw import RawPayload

# base64 in a form in gzip is three layers; no SDK uses more.
MAX_LAYERS = 5
# Of gzip. Each member copies the remaining bytes.
MAX_MEMBERS = 100

# Values of a compression hint, and the layer they announce. base64 is detected without a hint.
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

GZIP_MAGIC = b"\x1f\x8b\x08"
GZIP, ZLIB, RAW_DEFLATE = 31, 15, -15
BOM = b"\xef\xbb\xbf"
_FROM_URL_SAFE = bytes.maketrans(b"-_", b"+/")


# Parses the JSON text inside all layers.
Parse = Callable[[bytes], Any]


def decode(raw: RawPayload, limits: PayloadLimits, parse: Parse | None = None) -> Any:
    """Return the JSON value of a payload, or the result of `parse` for its JSON text. Raises
    TooLarge beyond the limits. The compression named in the query string takes precedence over that
    of the form, and that over the header."""
    limits = limits.for_body(len(raw.data))
    if parse is None:
        parse = partial(parse_json, is_lenient=raw.is_lenient, limits=limits)
    if raw.is_plain_json:
        return parse(raw.data)
    body = raw.data
    # PostHog detects gzip without a hint, and posthog-js sends none.
    was_gzip = body.startswith(GZIP_MAGIC)
    if was_gzip:
        body = _inflate(body, GZIP, limits)
    fields = _read_fields(raw, body)
    announced = raw.compression or read_field(fields, "compression") or raw.content_encoding
    hint = resolve_hint(announced, is_lenient=raw.is_lenient)
    if was_gzip and hint == "gzip":
        hint = ""
    return add_token(_unwrap(fields.get("data", body), hint, parse, limits), fields)


def _read_fields(raw: RawPayload, body: bytes) -> dict[str, bytes]:
    """Return the fields of the form, if there is one. Raises NoData if there is no payload."""
    if not raw.is_query:
        if not body.strip():
            raise NoData
        return read_form_fields(body, raw.content_type)
    fields = parse_urlencoded(body)
    if not fields.get("data", b"").strip():
        raise NoData
    return fields


def resolve_hint(name: str, *, is_lenient: bool) -> str:
    hint = _HINTS.get(name.strip().lower(), "" if is_lenient else None)
    if hint is None:
        expected = ", ".join(KNOWN_COMPRESSIONS)
        raise MalformedData(f'unknown compression "{name[:40]}". Expected one of: {expected}.')
    return hint


def _unwrap(
    data: bytes, hint: str, parse: Parse, limits: PayloadLimits, layers: int = MAX_LAYERS
) -> Any:
    """Remove layers until the data is JSON. The data must match the hint."""
    if not layers:
        raise MalformedData("it is wrapped too many times.")
    unwrap_inner = partial(_unwrap, parse=parse, limits=limits, layers=layers - 1)
    if data.startswith(GZIP_MAGIC):
        return unwrap_inner(_inflate(data, GZIP, limits), "" if hint == "gzip" else hint)
    if hint == "lz64":
        return unwrap_inner(unpack_lz64(data, limits.max_unpacked_bytes), "")
    text = data.removeprefix(BOM).lstrip()
    if not hint:
        if text.startswith(OPENERS):
            return parse(text)
        if b"%" in data and (unquoted := unquote(data)) != data:
            return unwrap_inner(unquoted, hint)
    for plain in _decode_base64_variants(data):
        with suppress(MalformedData):
            return unwrap_inner(plain, hint)
    if hint == "deflate":
        return unwrap_inner(_inflate_zlib_or_raw(data, limits), "")
    if hint == "gzip":
        raise MalformedData("it is not gzip, although the request says so.")
    return parse(text)


def _decode_base64_variants(data: bytes) -> Iterator[bytes]:
    """Yield the possible decodings of base64. A space was a plus sign before form decoding, or it
    breaks a line; the caller keeps the variant that decodes further."""
    data = data.translate(_FROM_URL_SAFE, b"\r\n\t")
    for text in dict.fromkeys((data.replace(b" ", b"+"), data.replace(b" ", b""))):
        digits = text.rstrip(b"=")
        if digits and len(digits) % 4 != 1 and not digits.translate(None, BASE64):
            yield a2b_base64(digits + b"=" * (-len(digits) % 4))


def _inflate(data: bytes, kind: int, limits: PayloadLimits) -> bytes:
    """Decompress. Gzip may have several members in a row; bytes after the last are ignored."""
    pieces: list[bytes] = []
    size, remaining = len(data), limits.max_unpacked_bytes
    for _ in range(MAX_MEMBERS):
        stream = zlib.decompressobj(kind)
        for plain in _decompress(stream, data, remaining, limits.free_bytes):
            pieces.append(plain)
            remaining -= len(plain)
            if remaining < 0:
                raise unpacked_too_large_error(limits.max_unpacked_bytes)
            rest = len(stream.unconsumed_tail) + len(stream.unused_data)
            limits.check_ratio(size - rest, limits.max_unpacked_bytes - remaining)
        if not stream.eof:
            raise MalformedData("the compressed data was cut short.")
        data = stream.unused_data
        if kind != GZIP or not data.startswith(GZIP_MAGIC):
            return pieces[0] if len(pieces) == 1 else b"".join(pieces)
    raise MalformedData(f"the compressed data has more than {MAX_MEMBERS} members.")


def _decompress(stream: "zlib._Decompress", data: bytes, limit: int, first: int) -> Iterator[bytes]:
    """Yield at most `limit` bytes and one more, in two pieces if there are more than `first`."""
    try:
        plain = stream.decompress(data, min(limit, first or limit) + 1)
        yield plain
        if stream.unconsumed_tail and len(plain) <= limit:
            yield stream.decompress(stream.unconsumed_tail, limit - len(plain) + 1)
    except zlib.error:
        raise MalformedData("the compressed data is damaged.") from None


def _inflate_zlib_or_raw(data: bytes, limits: PayloadLimits) -> bytes:
    """ "deflate" means the zlib format, but some clients send the raw stream."""
    with suppress(MalformedData):
        return _inflate(data, ZLIB, limits)
    return _inflate(data, RAW_DEFLATE, limits)
