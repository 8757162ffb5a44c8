"""Request bodies under /api: bounded in size and time, JSON or either kind of form, one shape
out.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable
from typing import Any, Self
from urllib.parse import parse_qsl

from starlette.datastructures import Headers
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request

from hedgerow.errors import AppError, Malformed, TooLarge, TooSlow, UnsupportedMediaType
from hedgerow.lib import jsonio
from hedgerow.lib.threads import in_daemon_thread

SCOPE_KEY = "hedgerow.body"
PARSED_KEY = "hedgerow.parsed_body"
AT_ONCE_BYTES = 256 * 1024
MAX_FORM_FIELDS = 1000


class Form(dict[str, list[str]]):
    """The fields of a form: text only, and each may come more than once."""

    @classmethod
    def of(cls, pairs: Iterable[tuple[str, str]]) -> Self:
        form = cls()
        for name, value in pairs:
            form.setdefault(name, []).append(value)
        return form


class BodyReader:
    """Reads a request's body once, however many ask for it."""

    def __init__(self, max_bytes: int, timeout_s: float) -> None:
        self._max_bytes = max_bytes
        self._timeout_s = timeout_s

    async def value(self, request: Request) -> Any:
        """The parsed body; an absent one is an empty object."""
        scope = request.scope
        if PARSED_KEY not in scope:
            try:
                scope[PARSED_KEY] = await self._parsed(request)
            except AppError as error:
                scope[PARSED_KEY] = error
        if isinstance(scope[PARSED_KEY], AppError):
            raise scope[PARSED_KEY]
        return scope[PARSED_KEY]

    async def size(self, request: Request) -> int:
        return len(await self._bytes(request))

    async def _parsed(self, request: Request) -> Any:
        data = await self._bytes(request)
        if not data:
            return {}
        if request.headers.get("content-encoding", "identity").lower() != "identity":
            raise UnsupportedMediaType("Compressed bodies are not taken here.")
        media_type = request.headers.get("content-type", "application/json")
        essence = media_type.partition(";")[0].strip().lower()
        if essence == "application/json" or essence.endswith("+json") or not essence:
            return await _beside(data, _json)
        if essence == "application/x-www-form-urlencoded":
            return await _beside(data, _form_or_json)
        if essence == "multipart/form-data":
            return await _multipart(request.headers, data)
        raise UnsupportedMediaType(f'Unsupported media type "{media_type[:200]}" in request.')

    async def _bytes(self, request: Request) -> bytes:
        known = request.scope.get(SCOPE_KEY)
        if known is None:
            known = request.scope[SCOPE_KEY] = await self._read(request)
        return bytes(known)

    async def _read(self, request: Request) -> bytes:
        announced = request.headers.get("content-length", "")
        if announced.isdecimal() and int(announced[:20]) > self._max_bytes:
            raise self._too_large()
        body = bytearray()
        try:
            async with asyncio.timeout(self._timeout_s):
                async for chunk in request.stream():
                    body += chunk
                    if len(body) > self._max_bytes:
                        raise self._too_large()
        except TimeoutError:
            raise TooSlow from None
        return bytes(body)

    def _too_large(self) -> TooLarge:
        return TooLarge(f"Request body is larger than {self._max_bytes} bytes.")


async def _beside(data: bytes, parse: Callable[[bytes], Any]) -> Any:
    """A large body takes long enough to parse for others to notice, so a thread does it."""
    if len(data) <= AT_ONCE_BYTES:
        return parse(data)
    return await in_daemon_thread(lambda: parse(data))


def _json(data: bytes) -> Any:
    try:
        return jsonio.parse(data)
    except jsonio.JsonError as error:
        raise Malformed(str(error)) from None


def _form_or_json(data: bytes) -> Any:
    """curl calls everything a form unless told otherwise; an object in JSON is surely none."""
    if data.lstrip()[:1] == b"{":
        try:
            return jsonio.parse(data)
        except jsonio.JsonError:
            pass
    return _form(data)


def _form(data: bytes) -> Form:
    try:
        pairs = parse_qsl(
            data.decode(),
            keep_blank_values=True,
            max_num_fields=MAX_FORM_FIELDS,
            errors="strict",
        )
    except ValueError:
        raise Malformed("Form parse error - not a valid form body") from None
    return Form.of(pairs)


async def _multipart(headers: Headers, data: bytes) -> Form:
    async def stream() -> AsyncGenerator[bytes]:
        yield data

    parser = MultiPartParser(
        headers, stream(), max_files=1, max_fields=MAX_FORM_FIELDS, max_part_size=len(data)
    )
    try:
        data.decode()  # the parser would read other bytes as some other text
        form = await parser.parse()
    except (MultiPartException, ValueError, KeyError) as error:
        raise Malformed(f"Multipart form parse error - {error}") from None
    if not data.rstrip().endswith(b"--"):  # the parser takes a body that was cut short
        raise Malformed("Multipart form parse error - the body has no end")
    # A file is text like any other field: all that is ever sent as one here is CSV.
    try:
        return Form.of(
            [
                (name, value if isinstance(value, str) else (await value.read()).decode())
                for name, value in form.multi_items()
            ]
        )
    finally:
        await form.close()
