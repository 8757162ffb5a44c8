"""SSRF guard: user-configured hosts may only be reached at public addresses, and in the private
networks that the operator allows.

The guard resolves a name and checks its addresses, and the connection goes to a checked address, so
DNS rebinding cannot lead into the private network.
"""

import asyncio
import resource
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from ipaddress import ip_address, ip_network

from hedgerow.lib.threads import ThreadLimiter, consume_exception
from hedgerow.lib.workers.sender import current_sender
from hedgerow.lib.workers.sender_places import SenderPlaces, pause_time_limits
from hedgerow.outbound.special_networks import (
    Address,
    Network,
    find_metadata_network,
    is_public,
)
from hedgerow.plugin.http import TransportError

# A name server that never answers occupies a thread for up to half a minute. The event loop has two
# threads for such calls, which connections to our own databases use, too.
MAX_LOOKUP_THREADS = 64
# Connections of at least this number may be open, however few files the process may open.
MIN_CONNECTIONS = 32

ALL_NETWORKS: tuple[Network, ...] = (ip_network("0.0.0.0/0"), ip_network("::/0"))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lookup:
    has_place: asyncio.Event
    addresses: asyncio.Task[list[str]]


class SsrfGuard:
    """`allow_private` allows all private networks, `allowed_networks` some of them. A metadata
    service of a cloud is allowed only by a network that is not larger than its own."""

    def __init__(self, *, allow_private: bool, allowed_networks: Sequence[Network] = ()) -> None:
        self._allowed = (*allowed_networks, *(ALL_NETWORKS if allow_private else ()))
        self._threads = ThreadLimiter(MAX_LOOKUP_THREADS)
        self._places = SenderPlaces(MAX_LOOKUP_THREADS)
        # By sender and host: one that waits for its place delays no other sender.
        self._lookups: dict[tuple[str, str], _Lookup] = {}

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
            addresses = await self._look_up(host, port)
        except (OSError, UnicodeError):
            raise TransportError(f"Cannot resolve {host}.") from None
        allowed = [each for each in addresses if self.allows(each)]
        if not allowed:
            raise TransportError(describe_refusal(host))
        return allowed

    async def _look_up(self, host: str, port: int) -> list[str]:
        """Return all addresses of a host. Callers share a lookup that runs, so that a host occupies
        one thread however many of its callers give up."""
        key = current_sender.get(), host
        if (lookup := self._lookups.get(key)) is None:
            lookup = self._lookups[key] = self._start_lookup(host, port)
            lookup.addresses.add_done_callback(lambda _: self._lookups.pop(key))
            lookup.addresses.add_done_callback(consume_exception)
        with pause_time_limits():
            await lookup.has_place.wait()
        return await asyncio.shield(lookup.addresses)

    def _start_lookup(self, host: str, port: int) -> _Lookup:
        has_place = asyncio.Event()

        async def run() -> list[str]:
            async with self._places.hold_for_sender():
                has_place.set()
                return await self._threads.run(partial(_list_addresses, host, port))

        return _Lookup(has_place=has_place, addresses=asyncio.create_task(run()))


def _list_addresses(host: str, port: int) -> list[str]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(each[4][0]) for each in found))


def describe_refusal(host: str) -> str:
    return (
        f"{host} is an address of a private network."
        " Add the network to HEDGEROW_ALLOWED_PRIVATE_NETWORKS to allow it."
    )


def share_files(share: float) -> int:
    """Return how many connections to other systems may be open, as a share of the files that the
    process may open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = 2**16 if soft == resource.RLIM_INFINITY else min(soft, 2**16)
    return max(MIN_CONNECTIONS, int(limit * share))
