"""Bodies of the public paths: JSON, however a PostHog client wrapped it (gzip, deflate, lz64,
base64, a form, several of these). Bounded in size, time and depth; whatever the bytes are, only
AppErrors come out.
"""

import asyncio
import json
import math
import re
import zlib
from binascii import a2b_base64, a2b_qp
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from itertools import accumulate, islice
from struct import Struct
from typing import Any

import msgspec
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope

from hedgerow.errors import Malformed, TooLarge, TooSlow
from hedgerow.kit.eager import own_task
from hedgerow.kit.jsonio import MAX_DEPTH, MAX_DIGITS
from hedgerow.kit.threads import in_daemon_thread

# Larger ones would keep others waiting; what is packed may become a thousand times as large, and
# a million times if it is packed twice.
INLINE_BYTES = 256 * 1024
INLINE_PACKED_BYTES = 16 * 1024
LARGE_AT_ONCE = 2

# Small values take many times their length in memory.
MAX_OBJECTS = 1_000_000
MAX_VALUES = 5_000_000

MAX_FORM_FIELDS = 1000
MAX_STRAY_PERCENTS = 1000
# base64 in a form in gzip is three; nobody wraps more often than this.
MAX_LAYERS = 5
# lz64 is read by Python one symbol at a time, so it gets bounds of its own.
MAX_LZ64_BYTES = 192 * 1024
MAX_LZ64_UNPACKED = 1024 * 1024

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

_OPENERS = (b"{", b"[")
_GZIP_MAGIC = b"\x1f\x8b\x08"
_GZIP, _ZLIB, _RAW = 31, 15, -15
_BOM = b"\xef\xbb\xbf"
_BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_FROM_URL_SAFE = bytes.maketrans(b"-_", b"+/")
_MIRRORED_BITS = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))
_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
_NO_BRACKETS = bytes(byte for byte in range(256) if byte not in b"{}[]")
_HALF_CHARACTER = re.compile(r"\\u[dD][89a-fA-F]")
_STRING_OR_BRACKET = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[{]|[\]}]', re.DOTALL)
# What is cut deeper than this is still too deep for an event inside a batch inside an object.
CUT_DEPTH = MAX_DEPTH + 4

_STRAY_PERCENT = re.compile(rb"%(?![0-9a-fA-F]{2})")
_FIELD = re.compile(rb"(?:^|&)(data|compression|api_key|token|_|sent_at)=([^&]*)")
_FORM_START = re.compile(rb"(?:data|compression|api_key|token|ver|ip|_)=")
_BOUNDARY = re.compile(r'boundary=(?:"([^"]{1,200})"|([^\s;"]{1,200}))', re.IGNORECASE)
_PART_NAME = re.compile(rb'[;\s]name="?([^";\r\n]*)', re.IGNORECASE)

# An ASGI extension of our server: gives the body if all of it has come, else None.
WHOLE_BODY = "hedgerow.whole_body"

_four_bytes = Struct("<I").unpack_from
_json_value = msgspec.json.Decoder().decode


class MalformedData(Malformed):
    """No JSON can be found in what the client sent."""

    status, type, code = 400, "validation_error", "malformed_data"
    default_detail = "Malformed request data."

    def __init__(self, reason: str) -> None:
        super().__init__(f"Malformed request data: {reason}")


class NoData(Malformed):
    """The client sent nothing at all."""

    status, type, code = 400, "validation_error", "no_data"
    default_detail = "No data found. Send it in the body of a POST request."


def _as_it_is(value: Any) -> Any:
    return value


def _told(headers: Iterable[tuple[bytes, bytes]]) -> tuple[bytes, bytes, bytes]:
    """What headers say of a body: its length, encoding and type."""
    length = encoding = content_type = b""
    for name, value in headers:
        if name == b"content-length":
            length = value
        elif name == b"content-encoding":
            encoding = value
        elif name == b"content-type":
            content_type = value
    return length, encoding, content_type


class PayloadReader:
    """Reads the payload of a request: the query's `data` if it has one, else the body. One that
    `is_forgiving` takes no notice of a compression that it does not know. It leaves it to who reads
    on to refuse what nests too deep, of which it keeps a part, and to mend halves of characters."""

    def __init__(
        self,
        *,
        max_bytes: int,
        max_unpacked_bytes: int,
        timeout_s: float,
        is_forgiving: bool = False,
    ) -> None:
        self._max_bytes = max_bytes
        self._max_unpacked = max_unpacked_bytes
        self._timeout_s = timeout_s
        self._is_forgiving = is_forgiving
        self._large = asyncio.Semaphore(LARGE_AT_ONCE)

    async def read(
        self, scope: Scope, receive: Receive, then: Callable[[Any], Any] = _as_it_is
    ) -> Any:
        """What `then` makes of the value. Both take place beside the event loop if the body is
        large or may become so, and of such bodies few are read at a time."""
        query: bytes = scope["query_string"]
        compression = ""
        if b"data=" in query or b"compression=" in query:
            fields = _urlencoded(query)
            if fields.get("data"):
                forgiving = self._is_forgiving
                return await self._unpacked(
                    lambda limit: decode_query(query, max_unpacked=limit, is_forgiving=forgiving),
                    len(query),
                    then,
                )
            compression = _text(fields, "compression")
        announced, encoding, content_type = _told(scope["headers"])
        if announced.isdigit() and int(announced[:20]) > self._max_bytes:
            raise self._too_large()
        body = self._at_hand(scope)
        if body is None:
            body = await self._body(receive)
        if not compression and not encoding and body.startswith(_OPENERS):
            if len(body) <= INLINE_BYTES:
                return then(_json(body, self._is_forgiving))
            return await self._aside(lambda: then(_json(body, self._is_forgiving)))

        def unpack(limit: int) -> Any:
            return decode(
                body,
                content_type=content_type.decode("latin-1"),
                compression=compression,
                content_encoding=encoding.decode("latin-1"),
                max_unpacked=limit,
                is_forgiving=self._is_forgiving,
            )

        return await self._unpacked(unpack, len(body), then)

    async def _unpacked(
        self, unpack: Callable[[int], Any], size: int, then: Callable[[Any], Any]
    ) -> Any:
        """What is small when it is unpacked is read at once."""
        if size <= INLINE_PACKED_BYTES:
            with suppress(TooLarge):
                value = unpack(min(INLINE_BYTES, self._max_unpacked))
                return then(value)
        return await self._aside(lambda: then(unpack(self._max_unpacked)))

    async def _aside(self, work: Callable[[], Any]) -> Any:
        async with self._large:
            return await in_daemon_thread(work)

    def _at_hand(self, scope: Scope) -> bytes | None:
        """Nearly every body is here before anybody asks for it; waiting for it with a timer would
        cost more than reading it."""
        whole_body = scope.get("extensions", {}).get(WHOLE_BODY)
        body: bytes | None = whole_body() if whole_body is not None else None
        if body is not None and len(body) > self._max_bytes:
            raise self._too_large()
        return body

    async def _body(self, receive: Receive) -> bytes:
        await own_task()
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._gather(receive)
        except TimeoutError:
            raise TooSlow from None

    async def _gather(self, receive: Receive) -> bytes:
        chunks = []
        size = 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            chunk: bytes = message.get("body", b"")
            size += len(chunk)
            if size > self._max_bytes:
                raise self._too_large()
            chunks.append(chunk)
            if not message.get("more_body", False):
                return b"".join(chunks) if len(chunks) > 1 else chunk

    def _too_large(self) -> TooLarge:
        return TooLarge(f"Request body is larger than {self._max_bytes} bytes.")


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
    if not compression and not content_encoding and body.startswith(_OPENERS):
        return _json(body, is_forgiving)
    # PostHog sees that a body is gzip without being told, and so must we: posthog-js tells nobody.
    was_gzip = body.startswith(_GZIP_MAGIC)
    if was_gzip:
        body = _inflate(body, _GZIP, max_unpacked)
    if not body.strip():
        raise NoData
    fields = _form(body, content_type)
    said = compression or _text(fields, "compression") or content_encoding
    hint = _hint(said, is_forgiving=is_forgiving)
    if was_gzip and hint == "gzip":
        hint = ""
    value = _unwrap(fields.get("data", body), hint, max_unpacked, is_forgiving=is_forgiving)
    return _with_token(value, fields)


def decode_query(query_string: bytes, *, max_unpacked: int, is_forgiving: bool = False) -> Any:
    """The JSON value in a query's `data`, of which `compression` tells how it is wrapped. `ip`
    says nothing that counts; for `_` see `sent_at_ms`."""
    fields = _urlencoded(query_string)
    if not fields.get("data", b"").strip():
        raise NoData
    hint = _hint(_text(fields, "compression"), is_forgiving=is_forgiving)
    value = _unwrap(fields["data"], hint, max_unpacked, is_forgiving=is_forgiving)
    return _with_token(value, fields)


def sent_at_ms(query_string: bytes) -> int | None:
    """When the client says it sent the request: `_` or `sent_at`, milliseconds since 1970."""
    fields = _urlencoded(query_string)
    digits = fields.get("_") or fields.get("sent_at") or b""
    return int(digits) if digits.isdigit() and len(digits) <= 15 else None


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
        return within(_unpack_lz64(data, limit), "")
    text = data.removeprefix(_BOM).lstrip()
    if not hint:
        if text.startswith(_OPENERS):
            return _json(text, is_forgiving)
        if b"%" in data and (unquoted := _unquote(data)) != data:
            return within(unquoted, hint)
    for plain in _base64_readings(data):
        with suppress(MalformedData):
            return within(plain, hint)
    if hint == "deflate":
        return within(_inflate_any(data, limit), "")
    if hint == "gzip":
        raise MalformedData("it is announced as gzip and is not.")
    return _json(text, is_forgiving)


def _base64_readings(data: bytes) -> Iterator[bytes]:
    """What the data may be as base64. A space was a plus sign before a form was decoded, or else
    it was put in to break a line; the reading that makes sense is the right one."""
    data = data.translate(_FROM_URL_SAFE, b"\r\n\t")
    for text in dict.fromkeys((data.replace(b" ", b"+"), data.replace(b" ", b""))):
        digits = text.rstrip(b"=")
        if digits and len(digits) % 4 != 1 and not digits.translate(None, _BASE64):
            yield a2b_base64(digits + b"=" * (-len(digits) % 4))


def _inflate(data: bytes, kind: int, limit: int) -> bytes:
    stream = zlib.decompressobj(kind)
    try:
        plain = stream.decompress(data, limit + 1)
    except zlib.error:
        raise MalformedData("the compressed data is damaged.") from None
    if len(plain) > limit:
        raise _too_large_unpacked(limit)
    if not stream.eof:
        raise MalformedData("the compressed data was cut short.")
    return plain


def _inflate_any(data: bytes, limit: int) -> bytes:
    """ "deflate" means the zlib format, and some clients send the bare stream."""
    with suppress(MalformedData):
        return _inflate(data, _ZLIB, limit)
    return _inflate(data, _RAW, limit)


def _too_large_unpacked(limit: int) -> TooLarge:
    return TooLarge(f"Request body is larger than {limit} bytes when it is unpacked.")


def _unpack_lz64(text: bytes, limit: int) -> bytes:
    """LZ-string in base64. Its symbols are UTF-16 units; half of a pair becomes U+FFFD."""
    if len(text) > MAX_LZ64_BYTES:
        raise TooLarge(f"An lz64 body may have at most {MAX_LZ64_BYTES} bytes.")
    if b"%" in text:
        text = _unquote(text)
    digits = text.strip(b"\r\n\t").rstrip(b"=").replace(b" ", b"+")
    if not digits or digits.translate(None, _BASE64):
        raise MalformedData("it is announced as lz64 and is not.")
    # Missing digits count as zeros: one digit alone may stand before the padding, unlike base64.
    packed = a2b_base64(digits + b"A" * (-len(digits) % 4))
    units = _lz_units(packed, min(limit, MAX_LZ64_UNPACKED))
    return units.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()


def _lz_units(packed: bytes, limit: int) -> str:
    """LZ-string's decoder, which stops at the limit.

    A code of n bits comes lowest bit first. With the bits of every byte mirrored, it is n bits in
    the middle of a little-endian number. Codes 0 and 1 bring a new character of 8 or 16 bits, 2 is
    the end; the others are entries of the dictionary, which every code makes longer by one."""
    bits = packed.translate(_MIRRORED_BITS) + bytes(16)
    end, position, width = len(packed) * 8, 0, 2
    entries = ["", "", ""]
    last = ""
    pieces: list[str] = []
    room = limit
    while True:
        (window,) = _four_bytes(bits, position >> 3)
        code = window >> (position & 7) & ((1 << width) - 1)
        position += width
        if code == 2:
            return "".join(pieces)
        if code < 2:
            size = 16 if code else 8
            (window,) = _four_bytes(bits, position >> 3)
            entries.append(chr(window >> (position & 7) & ((1 << size) - 1)))
            position += size
            code = len(entries) - 1
        if position > end:
            raise MalformedData("the lz64 data was cut short.")
        if code < len(entries):
            entry = entries[code]
        elif code == len(entries) and last:
            entry = last + last[0]
        else:
            raise MalformedData("the lz64 data is damaged.")
        room -= len(entry)
        if room < 0:
            raise _too_large_unpacked(limit)
        pieces.append(entry)
        if last:
            entries.append(last + entry[0])
        last = entry
        width = len(entries).bit_length()


def _json(data: bytes, is_forgiving: bool) -> Any:
    # Few have so many brackets that they could be too deep; counting them is next to free.
    objects = data.count(b"{") + data.count(b"[")
    if objects > MAX_OBJECTS or (len(data) > MAX_VALUES and data.count(b",") > MAX_VALUES):
        raise TooLarge(f"A request may hold at most {MAX_VALUES} values and {MAX_OBJECTS} objects.")
    if objects > MAX_DEPTH and _is_too_deep(data):
        if not is_forgiving:
            raise _too_deep()
        data = _cut(data)
    try:
        return _json_value(data)
    except ValueError:
        return _lenient_json(data, is_forgiving)
    except RecursionError:
        raise _too_deep() from None


def _lenient_json(data: bytes, is_forgiving: bool) -> Any:
    """JSON as Python and JavaScript really write it. NaN, Infinity and what is too large for a
    float become null; half of a surrogate pair, from text that was cut, becomes U+FFFD, or is left
    to who reads on."""
    try:
        text = data.decode("utf-8-sig")
        value = json.loads(text, parse_constant=lambda _: None, parse_float=_finite)
    except UnicodeDecodeError as error:
        raise MalformedData(f"invalid UTF-8 at byte {error.start}.") from None
    except RecursionError:
        raise _too_deep() from None
    except json.JSONDecodeError as error:
        raise MalformedData(f"it is not JSON: {error}.") from None
    except ValueError:
        raise MalformedData(f"a number has more than {MAX_DIGITS} digits.") from None
    if is_forgiving or not _HALF_CHARACTER.search(text):
        return value
    unescaped = json.dumps(value, ensure_ascii=False).encode("utf-16-le", "surrogatepass")
    return _json_value(unescaped.decode("utf-16-le", "replace"))


def _finite(digits: str) -> float | None:
    number = float(digits)
    return number if math.isfinite(number) else None


def _too_deep() -> MalformedData:
    return MalformedData(f"it is nested deeper than {MAX_DEPTH} levels.")


def _is_too_deep(document: bytes) -> bool:
    """Whether valid JSON nests too deep: without its strings, the brackets are +1 and -1. Slower
    than a walk over the value for usual documents, and several times faster for hostile ones."""
    unescaped = document.replace(b"\\\\", b"").replace(b'\\"', b"")
    steps = b"".join(unescaped.split(b'"')[::2]).translate(_STEPS, _NO_BRACKETS)
    return max(accumulate(memoryview(steps).cast("b")), default=0) > MAX_DEPTH


def _cut(document: bytes) -> bytes:
    """The document with a number in place of all that nests deeper than we can read."""
    kept: list[bytes] = []
    depth = begin = 0
    for found in _STRING_OR_BRACKET.finditer(document):
        sign = document[found.start()]
        if sign in b"[{":
            depth += 1
            if depth == CUT_DEPTH + 1:
                kept += (document[begin : found.start()], b"0")
        elif sign in b"]}":
            if depth == CUT_DEPTH + 1:
                begin = found.end()
            depth -= 1
    return b"".join(kept) + document[begin:] if depth <= CUT_DEPTH else document


def _form(body: bytes, content_type: str) -> dict[str, bytes]:
    """The fields of a form that we know; none if the body is no form, whatever it calls itself."""
    essence = content_type.partition(";")[0].strip().lower()
    if essence == "multipart/form-data":
        return _multipart(body, content_type)
    if essence == "application/x-www-form-urlencoded" or _FORM_START.match(body):
        return _urlencoded(body)
    return {}


def _urlencoded(text: bytes) -> dict[str, bytes]:
    found = list(islice(_FIELD.finditer(text), MAX_FORM_FIELDS + 1))
    if len(found) > MAX_FORM_FIELDS:
        raise MalformedData(f"the form has more than {MAX_FORM_FIELDS} fields.")
    return {
        name.decode(): _unquote(value.replace(b"+", b" "))
        for name, value in (match.groups() for match in found)
    }


def _unquote(text: bytes) -> bytes:
    """What urllib's unquote_to_bytes does, many times faster: quoted-printable is the same with
    another sign. A percent sign that quotes nothing stands for itself."""
    text, strays = _STRAY_PERCENT.subn(b"%25", text, MAX_STRAY_PERCENTS)
    if strays == MAX_STRAY_PERCENTS:
        raise MalformedData("it is not URL-encoded.")
    return a2b_qp(text.replace(b"=", b"=3D").replace(b"%", b"="))


def _multipart(body: bytes, content_type: str) -> dict[str, bytes]:
    boundary = _BOUNDARY.search(content_type)
    if boundary is None:
        raise MalformedData("the multipart form names no boundary.")
    line = b"\r\n--" + (boundary[1] or boundary[2]).encode("utf-8", "replace")
    _, *parts = (b"\r\n" + body).split(line, MAX_FORM_FIELDS + 1)
    if not parts or not parts[-1].startswith(b"--"):
        raise MalformedData("the multipart form has no end, or too many fields.")
    fields = {}
    for part in parts[:-1]:
        head, _, value = part.partition(b"\r\n\r\n")
        name = _PART_NAME.search(head)
        if name is not None:
            fields[name[1].decode("utf-8", "replace")] = value
    if "data" not in fields:
        raise MalformedData('the multipart form has no field "data".')
    return fields


def _text(fields: dict[str, bytes], name: str) -> str:
    return fields.get(name, b"").decode("utf-8", "replace")


def _with_token(value: Any, fields: dict[str, bytes]) -> Any:
    """A form may carry the project's token beside the data, and there it goes first."""
    name = "api_key" if fields.get("api_key") else "token"
    if fields.get(name):
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, dict):
                part["$token"] = _text(fields, name)
    return value
