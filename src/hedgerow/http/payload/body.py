"""Request bodies of /api: JSON or a form, with limits on size, values and time, so that the event
loop can parse them.
"""

from collections.abc import Iterable
from typing import Any, Self

from starlette.requests import Request

from hedgerow.errors import AppError, Malformed, TooLarge, UnsupportedMediaType
from hedgerow.http.payload.body_memory import BodyMemory
from hedgerow.http.payload.documents import begins_too_deep
from hedgerow.http.payload.forms import MAX_FORM_FIELDS, read_part_name, split_parts, unquote
from hedgerow.http.payload.receive import check_announced_size, receive_body
from hedgerow.http.server.proxies import Origins
from hedgerow.lib import jsonio

SCOPE_KEY = "hedgerow.body"
PARSED_KEY = "hedgerow.parsed_body"
# Of JSON and URL-encoded forms. Only files, in multipart forms, are larger.
MAX_DOCUMENT_BYTES = 1024 * 1024
MAX_OBJECTS = 10_000
MAX_VALUES = 50_000
MULTIPART = "multipart/form-data"


class FormFields(dict[str, list[str]]):
    """The fields of a form: text values, each of which may be repeated."""

    @classmethod
    def from_pairs(cls, pairs: Iterable[tuple[str, str]]) -> Self:
        form = cls()
        for name, value in pairs:
            form.setdefault(name, []).append(value)
        return form


class BodyReader:
    """Reads a body once per request, and caches it in the scope."""

    def __init__(
        self, max_bytes: int, timeout_s: float, memory: BodyMemory, origins: Origins
    ) -> None:
        self._max_bytes = max_bytes
        self._timeout_s = timeout_s
        self._memory = memory
        self._origins = origins

    async def value(self, request: Request) -> Any:
        """Return the parsed body; {} if there is none."""
        scope = request.scope
        if PARSED_KEY not in scope:
            try:
                scope[PARSED_KEY] = await self._parse(request)
            except AppError as error:
                scope[PARSED_KEY] = error
        if isinstance(scope[PARSED_KEY], AppError):
            raise scope[PARSED_KEY]
        return scope[PARSED_KEY]

    async def size(self, request: Request) -> int:
        return len(await self._read_once(request))

    async def _parse(self, request: Request) -> Any:
        data = await self._read_once(request)
        if not data:
            return {}
        if request.headers.get("content-encoding", "identity").lower() != "identity":
            raise UnsupportedMediaType("Compressed request bodies are not supported here.")
        media_type = request.headers.get("content-type", "application/json")
        essence = _read_essence(request)
        if essence == "application/json" or essence.endswith("+json") or not essence:
            return _parse_json(data)
        if essence == "application/x-www-form-urlencoded":
            return _parse_form_or_json(data)
        if essence == MULTIPART:
            return _parse_multipart(data, media_type)
        raise UnsupportedMediaType(f'Unsupported media type "{media_type[:200]}" in request.')

    async def _read_once(self, request: Request) -> bytes:
        known = request.scope.get(SCOPE_KEY)
        if known is None:
            known = request.scope[SCOPE_KEY] = await self._read(request)
        return bytes(known)

    async def _read(self, request: Request) -> bytes:
        max_bytes = self._max_bytes
        if _read_essence(request) != MULTIPART:
            max_bytes = min(max_bytes, MAX_DOCUMENT_BYTES)
        check_announced_size(request.scope, max_bytes)
        address = str(self._origins.client_address(request.scope))
        with self._memory.reserve(address) as reservation:
            return await receive_body(
                request.receive, reservation, max_bytes=max_bytes, timeout_s=self._timeout_s
            )


def _read_essence(request: Request) -> str:
    media_type = request.headers.get("content-type", "application/json")
    return media_type.partition(";")[0].strip().lower()


def _parse_json(data: bytes) -> Any:
    try:
        return parse_bounded_json(data)
    except jsonio.JsonError as error:
        raise Malformed(str(error)) from None


def parse_bounded_json(data: bytes) -> Any:
    """Parse JSON, or raise TooLarge or JsonError."""
    objects = data.count(b"{") + data.count(b"[")
    if objects > MAX_OBJECTS or data.count(b",") > MAX_VALUES:
        if begins_too_deep(data):
            raise jsonio.too_deep_error()
        raise TooLarge(
            f"Request body holds more than {MAX_OBJECTS} objects or {MAX_VALUES} values. "
            "Send fewer in each request."
        )
    return jsonio.parse(data)


def _parse_form_or_json(data: bytes) -> Any:
    """curl labels every body a form by default; a JSON object is not one."""
    if data.lstrip()[:1] == b"{":
        try:
            return parse_bounded_json(data)
        except jsonio.JsonError:
            pass
    return _parse_form(data)


def _parse_form(data: bytes) -> FormFields:
    pairs = [pair.partition(b"=") for pair in data.split(b"&", MAX_FORM_FIELDS) if pair]
    try:
        if data.count(b"&") >= MAX_FORM_FIELDS:
            raise ValueError
        return FormFields.from_pairs(
            (_decode_field(name), _decode_field(value)) for name, _, value in pairs
        )
    except (ValueError, AppError):
        raise Malformed("Form parse error - not a valid form body") from None


def _decode_field(text: bytes) -> str:
    return unquote(text.replace(b"+", b" ")).decode()


def _parse_multipart(data: bytes, content_type: str) -> FormFields:
    """Treat a file as text: the only files that clients send are CSV."""
    try:
        parts = split_parts(data, content_type)
        names = [read_part_name(head) for head, _ in parts]
        if sum(b"filename=" in head for head, _ in parts) > 1:
            raise Malformed("the form has more than one file.")
        fields = [(name, value.decode()) for name, (_, value) in zip(names, parts, strict=True)]
    except AppError as error:
        raise Malformed(f"Multipart form parse error - {error.detail}") from None
    except UnicodeDecodeError:
        raise Malformed("Multipart form parse error - it is not UTF-8.") from None
    if not fields or not all(names):
        raise Malformed("Multipart form parse error - a part has no name.")
    return FormFields.from_pairs((name or "", value) for name, value in fields)
