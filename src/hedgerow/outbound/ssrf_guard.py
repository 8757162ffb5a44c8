"""SSRF guard: user-configured hosts may only be reached at public addresses.

The guard resolves a name and checks its addresses, and the connection goes to a checked address, so
DNS rebinding cannot lead into the private network.
"""

import asyncio
import socket
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

from hedgerow.plugin.http import TransportError

# IPv6 addresses that embed an IPv4 address in their last 32 bits.
_NAT64 = IPv6Network("64:ff9b::/96")

Address = IPv4Address | IPv6Address


def is_public(address: Address) -> bool:
    """Return whether an address is public, also for embedded IPv4 addresses."""
    if isinstance(address, IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if address in _NAT64:
            inner = IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return is_public(inner)
        if address.teredo is not None or address.is_site_local:
            return False
    return address.is_global and not address.is_multicast


class SsrfGuard:
    def __init__(self, *, allow_private: bool) -> None:
        self._allow_private = allow_private

    def allows(self, address: str) -> bool:
        """Return whether connections to this IP address are allowed."""
        if self._allow_private:
            return True
        try:
            return is_public(ip_address(address.partition("%")[0]))
        except ValueError:
            return False

    async def resolve(self, host: str, port: int) -> list[str]:
        """The addresses of a host that may be connected to, at least one; or TransportError."""
        try:
            found = await asyncio.get_running_loop().getaddrinfo(
                host, port, type=socket.SOCK_STREAM
            )
        except (OSError, UnicodeError):
            raise TransportError(f"Cannot resolve {host}.") from None
        addresses = list(dict.fromkeys(str(each[4][0]) for each in found))
        public = [each for each in addresses if self.allows(each)]
        if not public:
            raise TransportError(describe_refusal(host))
        return public


def describe_refusal(host: str) -> str:
    return (
        f"{host} is an address of a private network."
        " Set HEDGEROW_ALLOW_PRIVATE_DESTINATIONS to allow such addresses."
    )
