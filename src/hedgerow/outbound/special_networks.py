"""Networks that are not public, in one table with the source of each row.

Our own, because `ipaddress.is_global` depends on the version of Python and misses some of them.
"""

from collections.abc import Iterator
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_network,
)

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

# IANA: https://www.iana.org/assignments/iana-ipv4-special-registry and iana-ipv6-special-registry.
# Of IPv6 only 2000::/3 is assigned, so that everything else is refused: ::/96 (IPv4-compatible),
# ::ffff:0:0:0/96 (IPv4-translated), 64:ff9b:1::/48 (local NAT64), 100::/64 (discard), 5f00::/16
# (segment routing), fc00::/7 (unique local), fe80::/10 and fec0::/10 (link and site local),
# ff00::/8 (multicast).
SPECIAL_NETWORKS: dict[str, str] = {
    "0.0.0.0/8": "RFC 1122, this network",
    "10.0.0.0/8": "RFC 1918, private",
    "100.64.0.0/10": "RFC 6598, shared address space of carriers",
    "127.0.0.0/8": "RFC 1122, loopback",
    "169.254.0.0/16": "RFC 3927, link local",
    "172.16.0.0/12": "RFC 1918, private",
    "192.0.0.0/24": "RFC 6890, IETF protocol assignments",
    "192.0.2.0/24": "RFC 5737, documentation",
    "192.88.99.0/24": "RFC 7526, deprecated 6to4 relays",
    "192.168.0.0/16": "RFC 1918, private",
    "198.18.0.0/15": "RFC 2544, benchmarks",
    "198.51.100.0/24": "RFC 5737, documentation",
    "203.0.113.0/24": "RFC 5737, documentation",
    "224.0.0.0/4": "RFC 5771, multicast",
    "240.0.0.0/4": "RFC 1112, reserved; limited broadcast",
    "::/3": "RFC 4291, outside of global unicast",
    "2001::/23": "RFC 2928, IETF protocol assignments, Teredo included",
    "2001:db8::/32": "RFC 3849, documentation",
    "3fff::/20": "RFC 9637, documentation",
    "4000::/2": "RFC 4291, outside of global unicast",
    "8000::/1": "RFC 4291, outside of global unicast",
}

# They hand out credentials of the machine, or control it. Refused even where private networks are
# allowed, unless they are named.
METADATA_NETWORKS: dict[str, str] = {
    "169.254.0.0/16": "AWS, Google Cloud, Azure, Oracle Cloud, DigitalOcean, OpenStack and others",
    "100.100.100.200/32": "Alibaba Cloud",
    "168.63.129.16/32": "Azure, WireServer",
    "192.0.0.192/32": "Oracle Cloud, classic",
    "fd00:42::42/128": "Scaleway",
    "fd00:c1::a9fe:a9fe/128": "Oracle Cloud",
    "fd00:ec2::/32": "AWS",
    "fd20:ce::254/128": "Google Cloud",
    "fe80::a9fe:a9fe/128": "OpenStack",
}

_special = [ip_network(text) for text in SPECIAL_NETWORKS]
_metadata = [ip_network(text) for text in METADATA_NETWORKS]
_mapped = IPv6Network("::ffff:0:0/96")
# A translator sends packets for these to the IPv4 address in the last 32 bits.
_nat64 = IPv6Network("64:ff9b::/96")
_6to4 = IPv6Network("2002::/16")
# The beginning of the interface part of an ISATAP address. (RFC 5214)
_ISATAP = (0x00005EFE, 0x02005EFE)
_32_BITS = 0xFFFFFFFF


def is_public(address: Address) -> bool:
    """Whether an address is on the public internet, and an IPv4 address embedded in it too."""
    if find_metadata_network(address) is not None:
        return False
    embedded = embedded_ipv4(address)
    if embedded is not None and not is_public(embedded):
        return False
    if address in _mapped or address in _nat64:
        return True
    return not any(address in network for network in _special)


def find_metadata_network(address: Address) -> Network | None:
    """Return the network of a cloud's metadata service that the address belongs to."""
    for each in equivalent_addresses(address):
        for network in _metadata:
            if each in network:
                return network
    return None


def equivalent_addresses(address: Address) -> Iterator[Address]:
    """Yield the address, and the IPv4 address embedded in it."""
    yield address
    if (embedded := embedded_ipv4(address)) is not None:
        yield embedded


def embedded_ipv4(address: Address) -> IPv4Address | None:
    """Return the IPv4 address that packets to this IPv6 address may reach."""
    if isinstance(address, IPv4Address):
        return None
    number = int(address)
    if address in _6to4:
        return IPv4Address(number >> 80 & _32_BITS)
    if address in _mapped or address in _nat64 or number >> 32 & _32_BITS in _ISATAP:
        return IPv4Address(number & _32_BITS)
    return None
