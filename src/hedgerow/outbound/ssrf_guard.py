"""SSRF guard: user-configured hosts may only be reached at public addresses, and in the private
networks that the operator allows.

The guard resolves a name and checks its addresses, and the connection goes to a checked address, so
DNS rebinding cannot lead into the private network.
"""

import asyncio
import socket
from collections.abc import Sequence
from ipaddress import ip_address, ip_network

from hedgerow.outbound.special_networks import (
    Address,
    Network,
    find_metadata_network,
    is_public,
)
from hedgerow.plugin.http import TransportError

ALL_NETWORKS: tuple[Network, ...] = (ip_network("0.0.0.0/0"), ip_network("::/0"))


class SsrfGuard:
    """`allow_private` allows all private networks, `allowed_networks` some of them. A metadata
    service of a cloud is allowed only by a network that is not larger than its own."""

    def __init__(self, *, allow_private: bool, allowed_networks: Sequence[Network] = ()) -> None:
        self._allowed = (*allowed_networks, *(ALL_NETWORKS if allow_private else ()))

    def allows(self, address: str) -> bool:
        """Return whether connections to this IP address are allowed."""
        try:
            parsed = ip_address(address.partition("%")[0])
        except ValueError:
            return False
        return is_public(parsed) or self._is_allowed_private(parsed)

    def check(self, address: str) -> None:
        """Raise TransportError unless connections to this IP address are allowed."""
        if not self.allows(address):
            raise TransportError(describe_refusal(address))

    def _is_allowed_private(self, address: Address) -> bool:
        # Not an embedded address alone: an address that embeds an allowed one may be routed
        # elsewhere, unless it is the same address in another form.
        mapped = getattr(address, "ipv4_mapped", None) or address
        metadata = find_metadata_network(address)
        smallest_prefix = 0 if metadata is None else metadata.prefixlen
        return any(
            mapped in network and network.prefixlen >= smallest_prefix for network in self._allowed
        )

    async def resolve(self, host: str, port: int) -> list[str]:
        """The addresses of a host that may be connected to, at least one; or TransportError."""
        try:
            found = await asyncio.get_running_loop().getaddrinfo(
                host, port, type=socket.SOCK_STREAM
            )
        except (OSError, UnicodeError):
            raise TransportError(f"Cannot resolve {host}.") from None
        addresses = list(dict.fromkeys(str(each[4][0]) for each in found))
        allowed = [each for each in addresses if self.allows(each)]
        if not allowed:
            raise TransportError(describe_refusal(host))
        return allowed


def describe_refusal(host: str) -> str:
    return (
        f"{host} is an address of a private network."
        " Add the network to HEDGEROW_ALLOWED_PRIVATE_NETWORKS to allow it."
    )
