"""The addresses that outbound requests may reach."""

from ipaddress import ip_address, ip_network

import pytest

from hedgerow.outbound.special_networks import METADATA_NETWORKS, SPECIAL_NETWORKS, is_public
from hedgerow.outbound.ssrf_guard import SsrfGuard


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.9.9.9",
        "0.0.0.0",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "100.64.0.1",
        "169.254.169.254",
        "224.0.0.1",
        "239.1.1.1",
        "255.255.255.255",
        "::",
        "::1",
        "fe80::1",
        "fc00::1",
        "fec0::1",
        "ff02::1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
        "2002:a9fe:a9fe::1",
        "2001:0:7f00:1::",
        "fd00:ec2::254",
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
        "192.0.0.9",
        "192.88.99.1",
        "198.18.0.1",
        "203.0.113.1",
        "::7f00:1",
        "::808:808",
        "::ffff:0:7f00:1",
        "::ffff:0:808:808",
        "::ffff:168.63.129.16",
        "64:ff9b::a83f:8110",
        "64:ff9b:1::808:808",
        "100::1",
        "100:0:0:1::1",
        "2001:2::1",
        "2001:10::1",
        "2001:20::1",
        "2001:db8::1",
        "2002:a83f:8110::1",
        "2606:4700::5efe:a00:1",
        "2606:4700::200:5efe:7f00:1",
        "3fff::1",
        "3fff:fff:ffff::1",
        "4000::1",
        "5f00::1",
        "fd20:ce::254",
    ],
)
def test_non_public_address_is_rejected(address: str) -> None:
    assert not is_public(ip_address(address))


@pytest.mark.parametrize("network", [*SPECIAL_NETWORKS, *METADATA_NETWORKS])
def test_first_and_last_address_of_each_special_network_are_rejected(network: str) -> None:
    parsed = ip_network(network)
    if network != "::/3":  # begins with ::, and contains translated public addresses
        assert not is_public(parsed[0])
    assert not is_public(parsed[-1])


@pytest.mark.parametrize(
    "address",
    [
        "1.1.1.1",
        "93.184.216.34",
        "168.63.129.17",
        "192.0.1.1",
        "2606:4700:4700::1111",
        "2001:4860:4860::8888",
        "::ffff:1.1.1.1",
        "64:ff9b::101:101",
        "2002:101:101::1",
        "2a00:1450::1",
    ],
)
def test_public_address_is_allowed(address: str) -> None:
    assert is_public(ip_address(address))


def guard(*networks: str, allow_private: bool = False) -> SsrfGuard:
    parsed = [ip_network(network) for network in networks]
    return SsrfGuard(allow_private=allow_private, allowed_networks=parsed)


@pytest.mark.parametrize(
    ("networks", "address", "expected"),
    [
        (["10.1.0.0/16"], "10.1.2.3", True),
        (["10.1.0.0/16"], "10.2.0.1", False),
        (["10.1.0.0/16"], "127.0.0.1", False),
        (["10.1.0.0/16"], "::ffff:10.1.2.3", True),
        (["10.1.0.0/16"], "64:ff9b::a01:203", False),
        (["10.1.0.0/16"], "1.1.1.1", True),
        (["10.1.0.0/16"], "not an address", False),
        (["fd12::/16"], "fd12::1%eth0", True),
        (["0.0.0.0/0"], "10.1.2.3", True),
        (["0.0.0.0/0"], "169.254.169.254", False),
        (["0.0.0.0/0"], "::ffff:169.254.169.254", False),
        (["100.64.0.0/10"], "100.100.100.200", False),
        (["100.100.100.200/32"], "100.100.100.200", True),
        (["169.254.10.0/24"], "169.254.10.1", True),
        (["169.254.10.0/24"], "169.254.169.254", False),
        (["fc00::/7"], "fd00:ec2::254", False),
    ],
)
def test_allowed_networks(networks: list[str], address: str, expected: bool) -> None:
    assert guard(*networks).allows(address) is expected


def test_all_private_networks_do_not_include_metadata_services() -> None:
    allowing = guard(allow_private=True)
    assert allowing.allows("127.0.0.1")
    assert allowing.allows("fd12::1")
    for network in METADATA_NETWORKS:
        assert not allowing.allows(str(ip_network(network)[-1]))
