"""The HTTP client for user-configured URLs. It connects only to addresses that the SSRF guard
allows, and does not follow redirects.
"""

import socket
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from io import BytesIO
from typing import Any
from weakref import WeakSet

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from hedgerow.lib.workers.fair_queue import Starts
from hedgerow.lib.workers.sender import current_sender
from hedgerow.lib.workers.sender_places import SenderPlaces, limit_time
from hedgerow.outbound.ssrf_guard import SsrfGuard, describe_refusal, share_files
from hedgerow.plugin.http import HttpClient, Request, Response, StreamedResponse, TransportError

CONNECT_TIMEOUT_S = 5.0
MAX_BODY_BYTES = 64 * 1024
CHUNK_BYTES = 64 * 1024
# Larger bodies are written in chunks, so that other tasks can run.
UNCHUNKED_BODY_BYTES = 512 * 1024
KEEPALIVE_S = 15.0
# Thousands of destinations that do not answer must leave file descriptors for databases and
# callers: an eighth is for requests at the same time, about as many for connections that are kept.
FILE_SHARE = 1 / 8
# All may be answered at the same moment, which takes the event loop 0.2 ms for each.
MAX_REQUESTS = 512
# A request takes the event loop about 0.5 ms in all.
STARTS_PER_ITERATION = 4
# Headers that the library would add by default. The caller sets all headers.
SKIPPED_HEADERS = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")


class AddressRefusedError(OSError):
    """The SSRF guard does not allow this address."""


class GuardedResolver(AbstractResolver):
    def __init__(self, guard: SsrfGuard) -> None:
        self._guard = guard

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
            for address in await self._guard.resolve(host, port)
        ]

    async def close(self) -> None: ...


class GuardedHttpClient(HttpClient):
    """The connections to all destinations. At most `max_requests` run at the same time, and a
    sender gets as many places as it leaves for others. A request that waits has all its time."""

    def __init__(self, guard: SsrfGuard, max_requests: int | None = None) -> None:
        self._guard = guard
        self._max_requests = max_requests or min(share_files(FILE_SHARE), MAX_REQUESTS)
        self._places = SenderPlaces(self._max_requests)
        self._starts = Starts[str](STARTS_PER_ITERATION)
        self._sockets: WeakSet[socket.socket] = WeakSet()
        # One keeps its connections for the next request, the other does not.
        self._sessions: dict[bool, aiohttp.ClientSession] = {}

    async def send(self, request: Request) -> Response:
        async with self._places.hold_for_sender():
            await self._starts.wait(current_sender.get())
            with _translate_errors(request):
                async with limit_time(request.timeout_s):
                    return await self._send(request)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[StreamedResponse]:
        patience = aiohttp.ClientTimeout(
            total=None, sock_connect=CONNECT_TIMEOUT_S, sock_read=request.timeout_s
        )
        async with self._places.hold_for_sender():
            await self._starts.wait(current_sender.get())
            # Translate errors of the request only, not those that the reader of the stream raises.
            with _translate_errors(request):
                response = await self._get_session().request(
                    **_build_arguments(request), timeout=patience
                )
            parts = _read_chunks(response, request)
            try:
                yield StreamedResponse(
                    status=response.status, headers=_lower_headers(response), chunks=parts
                )
            finally:
                await parts.aclose()
                # The body may be read only in part, so do not reuse the connection.
                response.close()

    async def _send(self, request: Request) -> Response:
        body = bytearray()
        async with self._get_session().request(**_build_arguments(request)) as response:
            # A longer body is not read to its end, and its connection is not reused.
            while len(body) < MAX_BODY_BYTES and (part := await response.content.readany()):
                body += part
        return Response(
            status=response.status,
            headers=_lower_headers(response),
            body=bytes(body[:MAX_BODY_BYTES]),
        )

    def _get_session(self) -> aiohttp.ClientSession:
        is_keeping = len(self._sockets) < self._max_requests
        if is_keeping not in self._sessions:
            self._sessions[is_keeping] = self._create_session(is_keeping)
        return self._sessions[is_keeping]

    def _create_session(self, is_keeping: bool) -> aiohttp.ClientSession:
        keepalive: dict[str, Any] = (
            {"keepalive_timeout": KEEPALIVE_S} if is_keeping else {"force_close": True}
        )
        connector = aiohttp.TCPConnector(
            limit=0,
            use_dns_cache=False,
            resolver=GuardedResolver(self._guard),
            socket_factory=self._create_socket,
            **keepalive,
        )
        return aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            skip_auto_headers=SKIPPED_HEADERS,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S),
        )

    def _create_socket(self, found: Any) -> socket.socket:
        """Create the socket of every connection, also of one to a literal IP address."""
        family, kind, protocol, _, (address, *_) = found
        if not self._guard.allows(str(address)):
            raise AddressRefusedError(describe_refusal(str(address)))
        created = socket.socket(family, kind, protocol)
        self._sockets.add(created)
        return created

    async def close(self) -> None:
        for session in self._sessions.values():
            await session.close()


async def _read_chunks(response: aiohttp.ClientResponse, request: Request) -> AsyncGenerator[bytes]:
    while True:
        with _translate_errors(request):
            part = await response.content.read(CHUNK_BYTES)
        if not part:
            return
        yield part


def _build_arguments(request: Request) -> dict[str, Any]:
    # A URL that needs no quoting is sent unchanged, because it may be part of a signature.
    url = URL(request.url, encoded=request.url.isascii() and " " not in request.url)
    return {
        "method": request.method,
        "url": url,
        "headers": request.headers,
        "data": BytesIO(request.body)
        if len(request.body) > UNCHUNKED_BODY_BYTES
        else request.body or None,
        "allow_redirects": False,
    }


def _lower_headers(response: aiohttp.ClientResponse) -> dict[str, str]:
    return {name.lower(): value for name, value in response.headers.items()}


@contextmanager
def _translate_errors(request: Request) -> Iterator[None]:
    """Convert errors to TransportError. The library's own messages are not used: they may contain
    the URL, and with it a secret."""
    try:
        yield
    except aiohttp.ConnectionTimeoutError:
        raise TransportError("The connection timed out.") from None
    except aiohttp.SocketTimeoutError:
        raise TransportError(f"No more data within {request.timeout_s:g} s.") from None
    except TimeoutError:
        raise TransportError(f"No response within {request.timeout_s:g} s.") from None
    except aiohttp.InvalidURL:
        raise TransportError("The URL must start with http:// or https:// and a host.") from None
    except aiohttp.ClientConnectorError as error:
        why = error.os_error
        reason = (
            str(why)
            if isinstance(why, AddressRefusedError)
            else _describe_failure(why.strerror or _get_error_name(why))
        )
        raise TransportError(reason) from None
    except aiohttp.ServerDisconnectedError:
        raise TransportError(_describe_failure("closed by the other side")) from None
    except aiohttp.ClientError as error:
        raise TransportError(_describe_failure(_get_error_name(error))) from None
    except (ValueError, OSError) as error:
        raise TransportError(f"The request cannot be sent: {_get_error_name(error)}.") from None


def _describe_failure(why: str) -> str:
    return f"The connection failed: {why}."


def _get_error_name(error: BaseException) -> str:
    return type(error).__name__
