"""Request bodies of /api: JSON or a form, with limits on size and time."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable
from typing import Any, Self
from urllib.parse import parse_qsl

from starlette.datastructures import Headers
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request

from hedgerow.errors import AppError, Malformed, RequestTimeout, TooLarge, UnsupportedMediaType
from hedgerow.lib import jsonio
from hedgerow.lib.threads import run_in_thread

SCOPE_KEY = "hedgerow.body"
PARSED_KEY = "hedgerow.parsed_body"
INLINE_BYTES = 256 * 1024
MAX_FORM_FIELDS = 1000


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

    def __init__(self, max_bytes: int, timeout_s: float) -> None:
        self._max_bytes = max_bytes
        self._timeout_s = timeout_s

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
        essence = media_type.partition(";")[0].strip().lower()
        if essence == "application/json" or essence.endswith("+json") or not essence:
            return await _parse_inline_or_in_thread(data, _parse_json)
        if essence == "application/x-www-form-urlencoded":
            return await _parse_inline_or_in_thread(data, _parse_form_or_json)
        if essence == "multipart/form-data":
            return await _parse_multipart(request.headers, data)
        raise UnsupportedMediaType(f'Unsupported media type "{media_type[:200]}" in request.')

    async def _read_once(self, request: Request) -> bytes:
        known = request.scope.get(SCOPE_KEY)
        if known is None:
            known = request.scope[SCOPE_KEY] = await self._read(request)
        return bytes(known)

    async def _read(self, request: Request) -> bytes:
        announced = request.headers.get("content-length", "")
        if announced.isdecimal() and int(announced[:20]) > self._max_bytes:
            raise self._too_large_error()
        body = bytearray()
        try:
            async with asyncio.timeout(self._timeout_s):
                async for chunk in request.stream():
                    body += chunk
                    if len(body) > self._max_bytes:
                        raise self._too_large_error()
        except TimeoutError:
            raise RequestTimeout from None
        return bytes(body)

    def _too_large_error(self) -> TooLarge:
        return TooLarge(f"Request body is larger than {self._max_bytes} bytes.")


async def _parse_inline_or_in_thread(data: bytes, parse: Callable[[bytes], Any]) -> Any:
    """Parse in a thread if the body is large enough to block the event loop."""
    if len(data) <= INLINE_BYTES:
        return parse(data)
    return await run_in_thread(lambda: parse(data))


def _parse_json(data: bytes) -> Any:
    try:
        return jsonio.parse(data)
    except jsonio.JsonError as error:
        raise Malformed(str(error)) from None


def _parse_form_or_json(data: bytes) -> Any:
    """curl labels every body a form by default; a JSON object is not one."""
    if data.lstrip()[:1] == b"{":
        try:
            return jsonio.parse(data)
        except jsonio.JsonError:
            pass
    return _parse_form(data)


def _parse_form(data: bytes) -> FormFields:
    try:
        pairs = parse_qsl(
            data.decode(),
            keep_blank_values=True,
            max_num_fields=MAX_FORM_FIELDS,
            errors="strict",
        )
    except ValueError:
        raise Malformed("Form parse error - not a valid form body") from None
    return FormFields.from_pairs(pairs)


async def _parse_multipart(headers: Headers, data: bytes) -> FormFields:
    async def stream() -> AsyncGenerator[bytes]:
        yield data

    parser = MultiPartParser(
        headers, stream(), max_files=1, max_fields=MAX_FORM_FIELDS, max_part_size=len(data)
    )
    try:
        data.decode()  # the parser would decode other bytes as latin-1
        form = await parser.parse()
    except (MultiPartException, ValueError, KeyError) as error:
        raise Malformed(f"Multipart form parse error - {error}") from None
    if not data.rstrip().endswith(b"--"):  # the parser accepts a truncated body
        raise Malformed("Multipart form parse error - the body has no end")
    # Treat a file as text: the only files that clients send are CSV.
    try:
        return FormFields.from_pairs(
            [
                (name, value if isinstance(value, str) else (await value.read()).decode())
                for name, value in form.multi_items()
            ]
        )
    finally:
        await form.close()
