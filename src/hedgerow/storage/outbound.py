"""The only way for requests to addresses that somebody else chose. Connections go to what the
guard has checked, and redirects are not followed.
"""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from hedgerow.pipelines.sending import CannotSend, Request, Response
from hedgerow.storage.guard import Guard, refused

TIMEOUT_S = 10.0
CONNECT_S = 5.0
BODY_BYTES = 64 * 1024
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
        with _told():
            async with asyncio.timeout(TIMEOUT_S):
                return await self._send(request)

    async def _send(self, request: Request) -> Response:
        body = bytearray()
        async with self._opened().request(
            request.method,
            request.url,
            headers=request.headers,
            data=request.body,
            allow_redirects=False,
        ) as response:
            # What is longer is not read to its end, and its connection not used again.
            while len(body) < BODY_BYTES and (part := await response.content.readany()):
                body += part
        return Response(
            status=response.status,
            headers={name.lower(): value for name, value in response.headers.items()},
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


@contextmanager
def _told() -> Iterator[None]:
    """Whatever keeps a request from its answer, as CannotSend. The library's own words may hold the
    address, and with it a secret."""
    try:
        yield
    except aiohttp.ConnectionTimeoutError:
        raise CannotSend("No connection in time.") from None
    except TimeoutError:
        raise CannotSend(f"No answer within {TIMEOUT_S:g} s.") from None
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
