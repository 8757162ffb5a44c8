"""The only way out to addresses that somebody else chose: requests of destinations.

A name is resolved here, its addresses are checked, and the connection goes to the checked address:
no name that changes its address meanwhile leads into our own network. Redirects are not followed.
"""

import asyncio
import socket
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Any

import httpcore

from hedgerow.pipelines.sending import CannotSend, Request, Response

TIMEOUT_S = 10.0
CONNECT_S = 5.0
BODY_BYTES = 64 * 1024
KEPT_OPEN = 64
KEPT_OPEN_S = 30.0

# IPv6 addresses that stand for an IPv4 address in their last 32 bits.
_NAT64 = IPv6Network("64:ff9b::/96")

Address = IPv4Address | IPv6Address


def is_public(address: Address) -> bool:
    """Whether an address is somewhere on the internet, in whichever form it is written."""
    if isinstance(address, IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if address in _NAT64:
            inner = IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return is_public(inner)
        if address.teredo is not None or address.is_site_local:
            return False
    return address.is_global and not address.is_multicast


class GuardedBackend(httpcore.AsyncNetworkBackend):
    """Connects to nothing but checked addresses."""

    def __init__(self, *, allow_private: bool) -> None:
        self._allow_private = allow_private
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
        for address in await self._addresses(host, port):
            try:
                return await self._backend.connect_tcp(
                    address, port, timeout, local_address, socket_options
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        assert failure is not None
        raise failure

    async def _addresses(self, host: str, port: int) -> list[str]:
        try:
            found = await asyncio.get_running_loop().getaddrinfo(
                host, port, type=socket.SOCK_STREAM
            )
        except (OSError, UnicodeError):
            raise CannotSend(f"{host} cannot be found.") from None
        addresses = list(dict.fromkeys(str(each[4][0]) for each in found))
        if self._allow_private:
            return addresses
        public = [each for each in addresses if is_public(ip_address(each.partition("%")[0]))]
        if not public:
            raise CannotSend(
                f"{host} is an address of a private network."
                " HEDGEROW_ALLOW_PRIVATE_DESTINATIONS allows such."
            )
        return public

    async def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore.AsyncNetworkStream:
        raise CannotSend("Sockets of this machine are no destinations.")

    async def sleep(self, seconds: float) -> None:
        await self._backend.sleep(seconds)


class HttpOutbound:
    """Requests of all destinations; how many at once is theirs to bound."""

    def __init__(self, *, allow_private: bool) -> None:
        self._pool = httpcore.AsyncConnectionPool(
            max_connections=None,
            max_keepalive_connections=KEPT_OPEN,
            keepalive_expiry=KEPT_OPEN_S,
            network_backend=GuardedBackend(allow_private=allow_private),
        )

    async def send(self, request: Request) -> Response:
        try:
            async with asyncio.timeout(TIMEOUT_S):
                return await self._send(request)
        except TimeoutError:
            raise CannotSend(f"No answer within {TIMEOUT_S:g} s.") from None
        except httpcore.TimeoutException:
            raise CannotSend("No connection in time.") from None
        except httpcore.UnsupportedProtocol:
            raise CannotSend("The address must begin with http:// or https://.") from None
        except (httpcore.NetworkError, httpcore.ProtocolError) as error:
            raise CannotSend(
                f"The connection failed: {str(error) or type(error).__name__}."
            ) from None
        except (ValueError, OSError) as error:
            raise CannotSend(f"The request cannot be sent: {type(error).__name__}.") from None

    async def _send(self, request: Request) -> Response:
        body = bytearray()
        async with self._pool.stream(
            request.method,
            request.url,
            headers=[(name.encode(), value.encode()) for name, value in request.headers.items()],
            content=request.body,
            extensions={"timeout": {"connect": CONNECT_S}},
        ) as response:
            async for part in response.aiter_stream():
                body += part
                if len(body) >= BODY_BYTES:
                    break
        return Response(
            status=response.status,
            headers={
                name.decode("latin-1").lower(): value.decode("latin-1")
                for name, value in response.headers
            },
            body=bytes(body[:BODY_BYTES]),
        )

    async def close(self) -> None:
        await self._pool.aclose()
