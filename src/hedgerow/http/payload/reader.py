"""Reads the payload of a request without keeping others waiting."""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope

from hedgerow.errors import TooLarge, TooSlow
from hedgerow.http.payload.documents import OPENERS, json_value
from hedgerow.http.payload.forms import field_text, urlencoded
from hedgerow.http.payload.layers import decode, decode_query
from hedgerow.lib.eager import own_task
from hedgerow.lib.threads import in_daemon_thread

# Larger ones would keep others waiting; what is packed may become a thousand times as large, and
# a million times if it is packed twice.
INLINE_BYTES = 256 * 1024
INLINE_PACKED_BYTES = 16 * 1024
LARGE_AT_ONCE = 2

# An ASGI extension of our server: gives the body if all of it has come, else None.
WHOLE_BODY = "hedgerow.whole_body"


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
            fields = urlencoded(query)
            if fields.get("data"):
                forgiving = self._is_forgiving
                return await self._unpacked(
                    lambda limit: decode_query(query, max_unpacked=limit, is_forgiving=forgiving),
                    len(query),
                    then,
                )
            compression = field_text(fields, "compression")
        announced, encoding, content_type = _told(scope["headers"])
        if announced.isdigit() and int(announced[:20]) > self._max_bytes:
            raise self._too_large()
        body = self._at_hand(scope)
        if body is None:
            body = await self._body(receive)
        if not compression and not encoding and body.startswith(OPENERS):
            if len(body) <= INLINE_BYTES:
                return then(json_value(body, self._is_forgiving))
            return await self._aside(lambda: then(json_value(body, self._is_forgiving)))

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
