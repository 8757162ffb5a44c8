"""Where connections may go when somebody else chose the address.

A name is resolved here, its addresses are checked, and the connection goes to a checked address:
no name that changes its address meanwhile leads into our own network.
"""

import asyncio
import socket
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

from hedgerow.pipelines.sending import CannotSend

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


class Guard:
    def __init__(self, *, allow_private: bool) -> None:
        self._allow_private = allow_private

    def allows(self, address: str) -> bool:
        """Whether this address, in its usual form, may be connected to."""
        if self._allow_private:
            return True
        try:
            return is_public(ip_address(address.partition("%")[0]))
        except ValueError:
            return False

    async def addresses(self, host: str, port: int) -> list[str]:
        """The addresses of a host that may be connected to, at least one; or CannotSend."""
        try:
            found = await asyncio.get_running_loop().getaddrinfo(
                host, port, type=socket.SOCK_STREAM
            )
        except (OSError, UnicodeError):
            raise CannotSend(f"{host} cannot be found.") from None
        addresses = list(dict.fromkeys(str(each[4][0]) for each in found))
        public = [each for each in addresses if self.allows(each)]
        if not public:
            raise CannotSend(refused(host))
        return public


def refused(host: str) -> str:
    return (
        f"{host} is an address of a private network."
        " HEDGEROW_ALLOW_PRIVATE_DESTINATIONS allows such."
    )
