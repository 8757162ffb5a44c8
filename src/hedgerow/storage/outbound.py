"""The only way for requests to addresses that somebody else chose. Connections go to what the
guard has checked, and redirects are not followed.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import httpcore

from hedgerow.pipelines.sending import CannotSend, Request, Response, Stream
from hedgerow.storage.guard import Guard

CONNECT_S = 5.0
BODY_BYTES = 64 * 1024
KEPT_OPEN = 64
KEPT_OPEN_S = 30.0


class GuardedBackend(httpcore.AsyncNetworkBackend):
    """Connects to nothing but checked addresses."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._backend = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        failure: Exception | None = None
        for address in await self._guard.addresses(host, port):
            try:
                return await self._backend.connect_tcp(
                    address, port, timeout, local_address, socket_options
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        assert failure is not None
        raise failure

    async def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore.AsyncNetworkStream:
        raise CannotSend("Sockets of this machine are no destinations.")

    async def sleep(self, seconds: float) -> None:
        await self._backend.sleep(seconds)


class HttpOutbound:
    """Requests of all destinations; how many at once is theirs to bound."""

    def __init__(self, guard: Guard) -> None:
        self._pool = httpcore.AsyncConnectionPool(
            max_connections=None,
            max_keepalive_connections=KEPT_OPEN,
            keepalive_expiry=KEPT_OPEN_S,
            network_backend=GuardedBackend(guard),
        )

    async def send(self, request: Request) -> Response:
        with _told(request):
            async with asyncio.timeout(request.timeout_s):
                return await self._send(request)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        each_s = request.timeout_s
        timeouts = {"connect": CONNECT_S, "write": each_s, "read": each_s}
        # Only what we do is told as ours: whoever reads may fail for reasons of their own.
        opened = self._pool.stream(**_arguments(request), extensions={"timeout": timeouts})
        with _told(request):
            response = await opened.__aenter__()
        parts = _parts(response, request)
        try:
            yield Stream(status=response.status, headers=_headers(response.headers), parts=parts)
        finally:
            with _told(request):
                await parts.aclose()
                await opened.__aexit__(None, None, None)

    async def _send(self, request: Request) -> Response:
        body = bytearray()
        async with self._pool.stream(
            **_arguments(request), extensions={"timeout": {"connect": CONNECT_S}}
        ) as response:
            async for part in response.aiter_stream():
                body += part
                if len(body) >= BODY_BYTES:
                    break
        return Response(
            status=response.status,
            headers=_headers(response.headers),
            body=bytes(body[:BODY_BYTES]),
        )

    async def close(self) -> None:
        await self._pool.aclose()


async def _parts(response: httpcore.Response, request: Request) -> AsyncGenerator[bytes]:
    parts = response.aiter_stream()
    while True:
        with _told(request):
            try:
                part = await anext(parts)
            except StopAsyncIteration:
                return
        yield part


def _arguments(request: Request) -> dict[str, Any]:
    return {
        "method": request.method,
        "url": request.url,
        "headers": [(name.encode(), value.encode()) for name, value in request.headers.items()],
        "content": request.body,
    }


def _headers(raw: Sequence[tuple[bytes, bytes]]) -> Mapping[str, str]:
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in raw}


@contextmanager
def _told(request: Request) -> Iterator[None]:
    """Whatever keeps a request from its answer, as CannotSend."""
    try:
        yield
    except TimeoutError:
        raise CannotSend(f"No answer within {request.timeout_s:g} s.") from None
    except httpcore.ReadTimeout:
        raise CannotSend(f"Nothing more came within {request.timeout_s:g} s.") from None
    except httpcore.TimeoutException:
        raise CannotSend("No connection in time.") from None
    except httpcore.UnsupportedProtocol:
        raise CannotSend("The address must begin with http:// or https://.") from None
    except (httpcore.NetworkError, httpcore.ProtocolError) as error:
        raise CannotSend(f"The connection failed: {str(error) or type(error).__name__}.") from None
    except (ValueError, OSError) as error:
        raise CannotSend(f"The request cannot be sent: {type(error).__name__}.") from None
