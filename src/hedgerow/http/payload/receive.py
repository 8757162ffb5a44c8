"""Receives a request body, with limits on its size, its time and the memory of all bodies."""

import asyncio

from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope

from hedgerow.errors import RequestTimeout, TooLarge
from hedgerow.http.payload.body_memory import Reservation
from hedgerow.lib.eager import ensure_task

# An ASGI extension of the server: returns the body if it is complete, else None.
TAKE_BODY_KEY = "hedgerow.take_body"


def check_announced_size(scope: Scope, max_bytes: int) -> None:
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit() and int(value[:20]) > max_bytes:
            raise _too_large_error(max_bytes)


def take_complete_body(scope: Scope, max_bytes: int) -> bytes | None:
    """Return the body if all of it has arrived. Most bodies are complete when the handler starts; a
    timer would cost more than the read."""
    take_body = scope.get("extensions", {}).get(TAKE_BODY_KEY)
    body: bytes | None = take_body() if take_body is not None else None
    if body is not None and len(body) > max_bytes:
        raise _too_large_error(max_bytes)
    return body


async def receive_body(
    receive: Receive, reservation: Reservation, *, max_bytes: int, timeout_s: float
) -> bytes:
    """Receive the body. Only bytes that have arrived count against the reservation."""
    await ensure_task()
    try:
        async with asyncio.timeout(timeout_s):
            return await _receive_chunks(receive, reservation, max_bytes)
    except TimeoutError:
        raise RequestTimeout from None


async def _receive_chunks(receive: Receive, reservation: Reservation, max_bytes: int) -> bytes:
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        chunk: bytes = message.get("body", b"")
        if len(body) + len(chunk) > max_bytes:
            raise _too_large_error(max_bytes)
        reservation.add(len(chunk))
        body += chunk
        if not message.get("more_body", False):
            return bytes(body)


def _too_large_error(max_bytes: int) -> TooLarge:
    return TooLarge(f"Request body is larger than {max_bytes} bytes.")
