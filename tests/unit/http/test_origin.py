from ipaddress import ip_address, ip_network

import pytest

from hedgerow.http.origin import Origins, cors, header
from tests.unit.http.asgi import http_scope

PROXY, STRANGER = ("10.0.0.1", 4000), ("192.0.2.1", 4000)
TRUSTED = (ip_network("10.0.0.0/8"), ip_network("fd00::/8"))
ORIGINS = Origins(TRUSTED, "")

FORWARDED = {
    "Host": "inside:8000",
    "X-Forwarded-Proto": "https",
    "X-Forwarded-Host": "flags.example.com",
    "X-Forwarded-For": "203.0.113.7",
}


def test_a_trusted_proxy_says_which_address_the_client_used() -> None:
    scope = http_scope(headers=FORWARDED, client=PROXY)
    assert ORIGINS.base_url(scope) == "https://flags.example.com"
    assert ORIGINS.client_address(scope) == ip_address("203.0.113.7")


@pytest.mark.parametrize("client", [STRANGER, ("2001:db8::1", 4000), ("unix", 0), None])
def test_nobody_else_is_believed(client: tuple[str, int] | None) -> None:
    scope = http_scope(headers=FORWARDED, client=client)
    assert ORIGINS.base_url(scope) == "http://inside:8000"
    assert ORIGINS.client_address(scope) != ip_address("203.0.113.7")


def test_without_trusted_proxies_a_local_proxy_is_not_believed_either() -> None:
    scope = http_scope(headers=FORWARDED, client=("127.0.0.1", 4000))
    assert Origins((), "").base_url(scope) == "http://inside:8000"
    assert Origins((), "").client_address(scope) == ip_address("127.0.0.1")


def test_a_public_address_that_was_set_beats_every_header() -> None:
    scope = http_scope(headers=FORWARDED, client=PROXY)
    assert Origins(TRUSTED, "https://f.example").base_url(scope) == "https://f.example"


@pytest.mark.parametrize(
    ("forwarded", "base"),
    [
        ({"X-Forwarded-Proto": "https"}, "https://inside:8000"),
        ({"X-Forwarded-Host": "flags.example.com:8443"}, "http://flags.example.com:8443"),
        ({"X-Forwarded-Proto": "http, https"}, "https://inside:8000"),
        ({"X-Forwarded-Host": "forged.example, flags.example.com"}, "http://flags.example.com"),
        ({"X-Forwarded-Proto": "javascript"}, "http://inside:8000"),
        ({"X-Forwarded-Proto": ""}, "http://inside:8000"),
    ],
)
def test_of_several_values_the_nearest_proxys_counts_and_nonsense_does_not(
    forwarded: dict[str, str], base: str
) -> None:
    scope = http_scope(headers={"Host": "inside:8000", **forwarded}, client=PROXY)
    assert ORIGINS.base_url(scope) == base


@pytest.mark.parametrize(
    "host",
    ["localhost", "flags.example.com", "flags.example.com:8443", "127.0.0.1:80", "[::1]:8000"],
)
def test_links_use_the_host_that_the_client_wrote(host: str) -> None:
    assert ORIGINS.base_url(http_scope(headers={"Host": host})) == f"http://{host}"


BAD_HOSTS = ["", "a b", "a/b", "user@host", "a:b", "a:123456", "évil", '"><script>', "[zz]"]


@pytest.mark.parametrize("host", [*BAD_HOSTS, "a,b", "a\n"])
def test_a_bad_host_is_replaced_by_our_own_address(host: str) -> None:
    assert ORIGINS.base_url(http_scope(headers={"Host": host})) == "http://127.0.0.1:8000"


@pytest.mark.parametrize("host", BAD_HOSTS)
def test_a_bad_host_is_bad_from_a_proxy_too(host: str) -> None:
    scope = http_scope(headers={"X-Forwarded-Host": host}, client=PROXY)
    assert ORIGINS.base_url(scope) == "http://127.0.0.1:8000"


@pytest.mark.parametrize(
    ("server", "base"),
    [
        (("::1", 8000), "http://[::1]:8000"),
        (("127.0.0.1", 80), "http://127.0.0.1:80"),
        (None, "http://localhost:80"),
    ],
)
def test_our_own_address_is_one_that_a_client_can_use(
    server: tuple[str, int | None] | None, base: str
) -> None:
    assert ORIGINS.base_url(http_scope(server=server)) == base


@pytest.mark.parametrize(
    ("chain", "client"),
    [
        ("203.0.113.7", "203.0.113.7"),
        ("1.1.1.1, 203.0.113.7", "203.0.113.7"),
        ("1.1.1.1, 203.0.113.7, 10.9.9.9", "203.0.113.7"),
        ("10.9.9.9, 10.8.8.8", "10.9.9.9"),
        ("2001:db8::7, fd00::1", "2001:db8::7"),
        ("203.0.113.7, nonsense", "10.0.0.1"),
        ("203.0.113.7, nonsense, 10.9.9.9", "10.9.9.9"),
        ("", "10.0.0.1"),
    ],
)
def test_the_client_is_the_nearest_hop_that_is_not_our_proxy(chain: str, client: str) -> None:
    scope = http_scope(headers={"X-Forwarded-For": chain}, client=PROXY)
    assert ORIGINS.client_address(scope) == ip_address(client)


def test_an_ipv4_proxy_is_trusted_on_a_socket_for_both_families_too() -> None:
    """A server on :: sees 10.0.0.1 as ::ffff:10.0.0.1."""
    scope = http_scope(headers=FORWARDED, client=("::ffff:10.0.0.1", 4000))
    assert ORIGINS.base_url(scope) == "https://flags.example.com"
    assert ORIGINS.client_address(scope) == ip_address("203.0.113.7")


def test_an_ipv6_proxy_is_trusted_by_its_network() -> None:
    scope = http_scope(headers=FORWARDED, client=("fd00::9", 4000))
    assert ORIGINS.base_url(scope) == "https://flags.example.com"


def test_a_header_that_came_twice_reads_as_one_with_a_comma() -> None:
    scope = http_scope(headers={"A": "1", "B": "2"})
    scope["headers"].append((b"a", b"3"))
    assert header(scope, b"a") == "1,3"
    assert header(scope, b"c") == ""


def test_a_page_elsewhere_gets_what_a_browser_needs() -> None:
    assert dict(cors(http_scope(), b"https://shop.example", "GET, OPTIONS")) == {
        b"access-control-allow-origin": b"https://shop.example",
        b"access-control-allow-credentials": b"true",
        b"access-control-allow-methods": b"GET, OPTIONS",
        b"access-control-allow-headers": b"X-Requested-With,Content-Type",
        b"vary": b"Origin",
    }


def test_a_preflight_is_granted_the_headers_it_asks_for_and_may_be_kept() -> None:
    scope = http_scope("OPTIONS", headers={"Access-Control-Request-Headers": "x-a, x-b"})
    granted = dict(cors(scope, b"https://shop.example", "POST, OPTIONS"))
    assert granted[b"access-control-allow-headers"] == b"x-a, x-b"
    assert granted[b"access-control-max-age"] == b"86400"
