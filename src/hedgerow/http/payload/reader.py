"""Reads SDK payloads without blocking the event loop."""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope

from hedgerow.errors import RequestTimeout, TooLarge
from hedgerow.http.payload.documents import OPENERS, parse_json
from hedgerow.http.payload.forms import parse_urlencoded, read_field
from hedgerow.http.payload.layers import decode, decode_query
from hedgerow.lib.eager import ensure_task
from hedgerow.lib.threads import run_in_thread

# Larger bodies are parsed in a thread. Compressed data may grow a thousand times, and a million
# times if it is compressed twice.
INLINE_BYTES = 256 * 1024
INLINE_PACKED_BYTES = 16 * 1024
MAX_CONCURRENT_LARGE = 2

# An ASGI extension of the server: returns the body if it is complete, else None.
TAKE_BODY_KEY = "hedgerow.take_body"


def _identity(value: Any) -> Any:
    return value


def _read_body_headers(headers: Iterable[tuple[bytes, bytes]]) -> tuple[bytes, bytes, bytes]:
    """Return the length, encoding and type of a body."""
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
    """Reads the payload of a request: `data` of the query string if present, else the body. With
    `is_lenient`, the reader ignores unknown compressions, cuts values that are nested too deep, and
    keeps lone surrogates; the caller must reject or sanitize these."""

    def __init__(
        self,
        *,
        max_bytes: int,
        max_unpacked_bytes: int,
        timeout_s: float,
        is_lenient: bool = False,
    ) -> None:
        self._max_bytes = max_bytes
        self._max_unpacked = max_unpacked_bytes
        self._timeout_s = timeout_s
        self._is_lenient = is_lenient
        self._large = asyncio.Semaphore(MAX_CONCURRENT_LARGE)

    async def read(
        self, scope: Scope, receive: Receive, then: Callable[[Any], Any] = _identity
    ) -> Any:
        """Parse the payload and return `then(value)`. Both run in a thread if the body is large or
        may become large, for a few bodies at a time."""
        query: bytes = scope["query_string"]
        compression = ""
        if b"data=" in query or b"compression=" in query:
            fields = parse_urlencoded(query)
            if fields.get("data"):
                is_lenient = self._is_lenient
                return await self._unpack(
                    lambda limit: decode_query(query, max_unpacked=limit, is_lenient=is_lenient),
                    len(query),
                    then,
                )
            compression = read_field(fields, "compression")
        announced, encoding, content_type = _read_body_headers(scope["headers"])
        if announced.isdigit() and int(announced[:20]) > self._max_bytes:
            raise self._too_large_error()
        body = self._take_complete_body(scope)
        if body is None:
            body = await self._receive_body(receive)
        if not compression and not encoding and body.startswith(OPENERS):
            if len(body) <= INLINE_BYTES:
                return then(parse_json(body, self._is_lenient))
            return await self._run_large(lambda: then(parse_json(body, self._is_lenient)))

        def unpack(limit: int) -> Any:
            return decode(
                body,
                content_type=content_type.decode("latin-1"),
                compression=compression,
                content_encoding=encoding.decode("latin-1"),
                max_unpacked=limit,
                is_lenient=self._is_lenient,
            )

        return await self._unpack(unpack, len(body), then)

    async def _unpack(
        self, unpack: Callable[[int], Any], size: int, then: Callable[[Any], Any]
    ) -> Any:
        """Parse inline if the unpacked data is small."""
        if size <= INLINE_PACKED_BYTES:
            with suppress(TooLarge):
                value = unpack(min(INLINE_BYTES, self._max_unpacked))
                return then(value)
        return await self._run_large(lambda: then(unpack(self._max_unpacked)))

    async def _run_large(self, work: Callable[[], Any]) -> Any:
        async with self._large:
            return await run_in_thread(work)

    def _take_complete_body(self, scope: Scope) -> bytes | None:
        """Most bodies are complete when the handler starts; a timer would cost more than the
        read."""
        take_body = scope.get("extensions", {}).get(TAKE_BODY_KEY)
        body: bytes | None = take_body() if take_body is not None else None
        if body is not None and len(body) > self._max_bytes:
            raise self._too_large_error()
        return body

    async def _receive_body(self, receive: Receive) -> bytes:
        await ensure_task()
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._receive_chunks(receive)
        except TimeoutError:
            raise RequestTimeout from None

    async def _receive_chunks(self, receive: Receive) -> bytes:
        chunks = []
        size = 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            chunk: bytes = message.get("body", b"")
            size += len(chunk)
            if size > self._max_bytes:
                raise self._too_large_error()
            chunks.append(chunk)
            if not message.get("more_body", False):
                return b"".join(chunks) if len(chunks) > 1 else chunk

    def _too_large_error(self) -> TooLarge:
        return TooLarge(f"Request body is larger than {self._max_bytes} bytes.")
