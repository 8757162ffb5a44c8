"""Finds the project token of a large payload in its first and last bytes, before the payload is
unpacked. What it finds is a hint: the parsed payload decides.
"""

import json
import re
import zlib
from binascii import a2b_base64
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from typing import Any, NamedTuple

from hedgerow.errors import AppError
from hedgerow.http.payload.documents import OPENERS
from hedgerow.http.payload.forms import FORM_START, unquote
from hedgerow.http.payload.layers import (
    BOM,
    GZIP,
    GZIP_MAGIC,
    MAX_LAYERS,
    RAW_DEFLATE,
    ZLIB,
    resolve_hint,
)
from hedgerow.http.payload.lz64 import BASE64, unpack_lz64_head
from hedgerow.http.payload.raw import RawPayload
from hedgerow.projects.project_token import TOKEN_FIELDS, find_project_token

HEAD_BYTES = 32 * 1024
TAIL_BYTES = 4 * 1024
MAX_CANDIDATES = 8

_TOKEN = re.compile(rb'"(\$token|token|api_key)"\s{0,9}:\s{0,9}"([^"\\]{1,100})"')
_FORM_TOKEN = re.compile(rb"(?:^|[?&])(?:api_key|token)=([^&]{1,100})(?:&|$)")
_FORM_DATA = re.compile(rb"(?:^|&)data=([^&]*)")
_PART_TOKEN = re.compile(
    rb'name="?(?:api_key|token)"?\r\n(?:[^\r\n]+\r\n)*\r\n([^\r\n]{1,100})\r\n'
)
_PART_DATA = re.compile(rb'name="?data"?[^\r\n]*\r\n(?:[^\r\n]+\r\n)*\r\n')
_COMPRESSION = re.compile(rb"(?:^|&)compression=([^&]{1,20})")
_FROM_URL_SAFE = bytes.maketrans(b"-_", b"+/")


class TokenHints(NamedTuple):
    """`decisive` is a token in a place that no other place overrides, None if there is none;
    `others` may be the token, or a property of the same name."""

    decisive: str | None = None
    others: tuple[str, ...] = ()


def search_token(raw: RawPayload) -> TokenHints:
    """Search the first and last bytes of a payload. Takes a few milliseconds at most."""
    head, tail = raw.data[:HEAD_BYTES], raw.data[-TAIL_BYTES:]
    if raw.is_plain_json:
        return search_json(head, tail)
    try:
        return _search_layers(raw, head, tail)
    except (AppError, ValueError, zlib.error):  # damaged, which the parser reports
        return TokenHints()


def _search_layers(raw: RawPayload, head: bytes, tail: bytes) -> TokenHints:
    compression = raw.compression
    if head.startswith(GZIP_MAGIC):
        head, tail = _inflate_head(head, GZIP), b""
    if _is_form(raw, head):
        if found := _search_form(head) or _search_form(tail):
            return TokenHints(unquote(found[1]).decode("utf-8", "replace").strip())
        hint = _COMPRESSION.search(head) or _COMPRESSION.search(tail)
        compression = compression or (hint[1].decode("latin-1") if hint else "")
        head, tail = _cut_data(head), b""
    text = _unwrap_head(head, resolve_hint(compression or raw.content_encoding, is_lenient=True))
    # Only the end of plain JSON is the end of the body.
    return search_json(text, tail if text is head else b"")


def search_json(head: bytes, tail: bytes) -> TokenHints:
    """Search the beginning and the end of JSON text."""
    head = head.removeprefix(BOM).lstrip()
    opener = head[:1]
    decisive: dict[str, str] = {}
    others: list[str] = []
    own_depth = 1 if opener == b"{" else 2
    found = islice(_TOKEN.finditer(head), MAX_CANDIDATES)
    places = [(match, _count_depth(head[: match.start()])) for match in found]
    if opener == b"{" and tail:
        last = list(_TOKEN.finditer(tail))[-MAX_CANDIDATES:]
        places += [(match, _count_depth(tail[match.end() :], is_end=True)) for match in last]
    for match, depth in places:
        if depth is None:
            continue
        token = match[2].decode("utf-8", "replace").strip()
        if depth == own_depth:
            decisive.setdefault(match[1].decode(), token)
        else:
            others.append(token)
    for name in TOKEN_FIELDS:
        if name in decisive:
            return TokenHints(decisive[name], tuple(others))
    first = _find_in_first_item(head) if opener == b"[" else None
    return TokenHints(first, tuple(others))


def _count_depth(text: bytes, *, is_end: bool = False) -> int | None:
    """Count the unclosed brackets before a place, or the unopened ones after it; None if the place
    is inside a string."""
    parts = text.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
    if len(parts) % 2 == 0:
        return None
    outside = b"".join(parts[::2])
    opened = outside.count(b"{") + outside.count(b"[")
    closed = outside.count(b"}") + outside.count(b"]")
    return closed - opened if is_end else opened - closed


def _find_in_first_item(head: bytes) -> str | None:
    """Return the token of the first event of a list; all events have the same."""
    with suppress(ValueError, RecursionError):
        item, _ = json.JSONDecoder().raw_decode(head[1:].decode("utf-8", "replace").lstrip())
        token: Any = find_project_token(item) if isinstance(item, dict) else None
        return token.strip() or None if isinstance(token, str) else None
    return None


def _is_form(raw: RawPayload, head: bytes) -> bool:
    essence = raw.content_type.partition(";")[0].strip().lower()
    is_typed = essence in ("application/x-www-form-urlencoded", "multipart/form-data")
    return raw.is_query or is_typed or FORM_START.match(head) is not None


def _search_form(text: bytes) -> re.Match[bytes] | None:
    return _FORM_TOKEN.search(text) or _PART_TOKEN.search(text)


def _cut_data(head: bytes) -> bytes:
    """Return the beginning of the field `data` of a form."""
    if found := _FORM_DATA.search(head):
        return unquote(found[1].replace(b"+", b" "))
    if part := _PART_DATA.search(head):
        return head[part.end() :]
    return head


def _unwrap_head(data: bytes, hint: str) -> bytes:
    """Remove layers from the beginning of a payload until it is JSON."""
    for _ in range(MAX_LAYERS):
        if data.startswith(GZIP_MAGIC):
            data, hint = _inflate_head(data, GZIP), "" if hint == "gzip" else hint
        elif hint == "lz64":
            data, hint = unpack_lz64_head(data), ""
        elif data.removeprefix(BOM).lstrip().startswith(OPENERS):
            return data
        elif not hint and b"%" in data:
            data = unquote(data)
        elif plain := next(_decode_base64_head(data), b""):
            data = plain
        elif hint == "deflate":
            data, hint = _inflate_zlib_or_raw_head(data), ""
        else:
            return b""
    return data


def _decode_base64_head(data: bytes) -> Iterator[bytes]:
    data = data.translate(_FROM_URL_SAFE, b"\r\n\t").replace(b" ", b"+").rstrip(b"=")
    if data and not data.translate(None, BASE64):
        yield a2b_base64(data[: len(data) // 4 * 4])


def _inflate_head(data: bytes, kind: int) -> bytes:
    return zlib.decompressobj(kind).decompress(data, HEAD_BYTES)


def _inflate_zlib_or_raw_head(data: bytes) -> bytes:
    with suppress(zlib.error):
        return _inflate_head(data, ZLIB)
    return _inflate_head(data, RAW_DEFLATE)
