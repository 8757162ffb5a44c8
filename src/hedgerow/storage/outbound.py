"""The only way for requests to addresses that somebody else chose. Connections go to what the
guard has checked, and redirects are not followed.
"""

import asyncio
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from io import BytesIO
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from hedgerow.pipelines.sending import CannotSend, Request, Response, Stream
from hedgerow.storage.guard import Guard, refused

CONNECT_S = 5.0
BODY_BYTES = 64 * 1024
PART_BYTES = 64 * 1024
# What is larger is written piece by piece, so that others have their turn.
AT_ONCE_BYTES = 512 * 1024
KEPT_OPEN_S = 15.0
# Headers that the library would add: who sends decides.
NOT_ADDED = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")


class Refused(OSError):
    """An address that the guard does not allow."""


class CheckedNames(AbstractResolver):
    def __init__(self, guard: Guard) -> None:
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
            for address in await self._guard.addresses(host, port)
        ]

    async def close(self) -> None: ...


class HttpOutbound:
    """Requests of all destinations; how many at once is theirs to bound."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._session: aiohttp.ClientSession | None = None

    async def send(self, request: Request) -> Response:
        with _told(request):
            async with asyncio.timeout(request.timeout_s):
                return await self._send(request)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        patience = aiohttp.ClientTimeout(
            total=None, sock_connect=CONNECT_S, sock_read=request.timeout_s
        )
        # Only what we do is told as ours: whoever reads may fail for reasons of their own.
        with _told(request):
            response = await self._opened().request(**_arguments(request), timeout=patience)
        parts = _parts(response, request)
        try:
            yield Stream(status=response.status, headers=_headers(response), parts=parts)
        finally:
            await parts.aclose()
            response.close()  # the connection may be in the midst of something

    async def _send(self, request: Request) -> Response:
        body = bytearray()
        async with self._opened().request(**_arguments(request)) as response:
            # What is longer is not read to its end, and its connection not used again.
            while len(body) < BODY_BYTES and (part := await response.content.readany()):
                body += part
        return Response(
            status=response.status,
            headers=_headers(response),
            body=bytes(body[:BODY_BYTES]),
        )

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(
                limit=0,
                keepalive_timeout=KEPT_OPEN_S,
                use_dns_cache=False,
                resolver=CheckedNames(self._guard),
                socket_factory=self._checked_socket,
            )
            self._session = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                skip_auto_headers=NOT_ADDED,
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S),
            )
        return self._session

    def _checked_socket(self, found: Any) -> socket.socket:
        """Every connection begins here, also one to an address that needed no resolving."""
        family, kind, protocol, _, (address, *_) = found
        if not self._guard.allows(str(address)):
            raise Refused(refused(str(address)))
        return socket.socket(family, kind, protocol)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()


async def _parts(response: aiohttp.ClientResponse, request: Request) -> AsyncGenerator[bytes]:
    while True:
        with _told(request):
            part = await response.content.read(PART_BYTES)
        if not part:
            return
        yield part


def _arguments(request: Request) -> dict[str, Any]:
    # An address that needs no quoting is sent as it is: it may be part of what was signed.
    url = URL(request.url, encoded=request.url.isascii() and " " not in request.url)
    return {
        "method": request.method,
        "url": url,
        "headers": request.headers,
        "data": BytesIO(request.body)
        if len(request.body) > AT_ONCE_BYTES
        else request.body or None,
        "allow_redirects": False,
    }


def _headers(response: aiohttp.ClientResponse) -> dict[str, str]:
    return {name.lower(): value for name, value in response.headers.items()}


@contextmanager
def _told(request: Request) -> Iterator[None]:
    """Whatever keeps a request from its answer, as CannotSend. The library's own words may hold the
    address, and with it a secret."""
    try:
        yield
    except aiohttp.ConnectionTimeoutError:
        raise CannotSend("No connection in time.") from None
    except aiohttp.SocketTimeoutError:
        raise CannotSend(f"Nothing more came within {request.timeout_s:g} s.") from None
    except TimeoutError:
        raise CannotSend(f"No answer within {request.timeout_s:g} s.") from None
    except aiohttp.InvalidURL:
        raise CannotSend("The address must begin with http:// or https:// and a host.") from None
    except aiohttp.ClientConnectorError as error:
        why = error.os_error
        reason = str(why) if isinstance(why, Refused) else _failed(why.strerror or _kind(why))
        raise CannotSend(reason) from None
    except aiohttp.ServerDisconnectedError:
        raise CannotSend(_failed("closed by the other side")) from None
    except aiohttp.ClientError as error:
        raise CannotSend(_failed(_kind(error))) from None
    except (ValueError, OSError) as error:
        raise CannotSend(f"The request cannot be sent: {_kind(error)}.") from None


def _failed(why: str) -> str:
    return f"The connection failed: {why}."


def _kind(error: BaseException) -> str:
    return type(error).__name__
