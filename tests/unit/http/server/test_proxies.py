from ipaddress import ip_address, ip_network

import pytest

from hedgerow.http.server.headers import read_header
from hedgerow.http.server.proxies import Origins, build_cors_headers
from tests.unit.http.asgi import http_scope

PROXY, UNTRUSTED = ("10.0.0.1", 4000), ("192.0.2.1", 4000)
TRUSTED = (ip_network("10.0.0.0/8"), ip_network("fd00::/8"))
ORIGINS = Origins(TRUSTED, "")

FORWARDED = {
    "Host": "inside:8000",
    "X-Forwarded-Proto": "https",
    "X-Forwarded-Host": "flags.example.com",
    "X-Forwarded-For": "203.0.113.7",
}


def test_trusted_proxy_forwards_the_client_address() -> None:
    scope = http_scope(headers=FORWARDED, client=PROXY)
    assert ORIGINS.base_url(scope) == "https://flags.example.com"
    assert ORIGINS.client_address(scope) == ip_address("203.0.113.7")


@pytest.mark.parametrize("client", [UNTRUSTED, ("2001:db8::1", 4000), ("unix", 0), None])
def test_forwarded_headers_of_untrusted_peers_are_ignored(client: tuple[str, int] | None) -> None:
    scope = http_scope(headers=FORWARDED, client=client)
    assert ORIGINS.base_url(scope) == "http://inside:8000"
    assert ORIGINS.client_address(scope) != ip_address("203.0.113.7")


def test_local_proxy_is_not_trusted_by_default() -> None:
    scope = http_scope(headers=FORWARDED, client=("127.0.0.1", 4000))
    assert Origins((), "").base_url(scope) == "http://inside:8000"
    assert Origins((), "").client_address(scope) == ip_address("127.0.0.1")


def test_public_url_overrides_every_header() -> None:
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
def test_last_forwarded_value_counts_and_invalid_values_do_not(
    forwarded: dict[str, str], base: str
) -> None:
    scope = http_scope(headers={"Host": "inside:8000", **forwarded}, client=PROXY)
    assert ORIGINS.base_url(scope) == base


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "flags",
        "flags.local:8443",
        "Flags.Internal",
        "10.1.2.3",
        "127.0.0.1:80",
        "[::1]:8000",
        "[fd00::1]",
    ],
)
def test_base_url_uses_a_private_host_header(host: str) -> None:
    assert ORIGINS.base_url(http_scope(headers={"Host": host})) == f"http://{host}"


@pytest.mark.parametrize(
    "host",
    ["forged.example", "forged.example:443", "8.8.8.8", "[2606:4700::1]:80", "local.forged.com"],
)
def test_base_url_ignores_a_public_host_header_unless_a_proxy_sends_it(host: str) -> None:
    assert ORIGINS.base_url(http_scope(headers={"Host": host})) == "http://127.0.0.1:8000"
    from_proxy = http_scope(headers={"Host": host}, client=PROXY)
    assert ORIGINS.base_url(from_proxy) == f"http://{host}"


BAD_HOSTS = ["", "a b", "a/b", "user@host", "a:b", "a:123456", "évil", '"><script>', "[zz]"]


@pytest.mark.parametrize("host", [*BAD_HOSTS, "a,b", "a\n"])
def test_invalid_host_is_replaced_by_the_server_address(host: str) -> None:
    assert ORIGINS.base_url(http_scope(headers={"Host": host})) == "http://127.0.0.1:8000"


@pytest.mark.parametrize("host", BAD_HOSTS)
def test_invalid_host_of_a_proxy_is_replaced(host: str) -> None:
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
def test_server_address_is_a_valid_url(server: tuple[str, int | None] | None, base: str) -> None:
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
def test_client_is_the_last_hop_that_is_not_a_trusted_proxy(chain: str, client: str) -> None:
    scope = http_scope(headers={"X-Forwarded-For": chain}, client=PROXY)
    assert ORIGINS.client_address(scope) == ip_address(client)


def test_ipv4_proxy_is_trusted_on_a_dual_stack_socket() -> None:
    """A server on :: sees 10.0.0.1 as ::ffff:10.0.0.1."""
    scope = http_scope(headers=FORWARDED, client=("::ffff:10.0.0.1", 4000))
    assert ORIGINS.base_url(scope) == "https://flags.example.com"
    assert ORIGINS.client_address(scope) == ip_address("203.0.113.7")


def test_ipv6_proxy_is_trusted_by_its_network() -> None:
    scope = http_scope(headers=FORWARDED, client=("fd00::9", 4000))
    assert ORIGINS.base_url(scope) == "https://flags.example.com"


def test_repeated_header_is_joined_with_a_comma() -> None:
    scope = http_scope(headers={"A": "1", "B": "2"})
    scope["headers"].append((b"a", b"3"))
    assert read_header(scope, b"a") == "1,3"
    assert read_header(scope, b"c") == ""


def test_cors_headers_allow_the_origin() -> None:
    assert dict(build_cors_headers(http_scope(), b"https://shop.example", "GET, OPTIONS")) == {
        b"access-control-allow-origin": b"https://shop.example",
        b"access-control-allow-methods": b"GET, OPTIONS",
        b"access-control-allow-headers": b"X-Requested-With,Content-Type",
        b"vary": b"Origin",
    }


def test_credentials_are_allowed_on_request() -> None:
    granted = build_cors_headers(http_scope(), b"https://a.example", "GET", allows_credentials=True)
    assert (b"access-control-allow-credentials", b"true") in granted


def test_preflight_allows_the_requested_headers_and_is_cacheable() -> None:
    scope = http_scope("OPTIONS", headers={"Access-Control-Request-Headers": "x-a, x-b"})
    granted = dict(build_cors_headers(scope, b"https://shop.example", "POST, OPTIONS"))
    assert granted[b"access-control-allow-headers"] == b"x-a, x-b"
    assert granted[b"access-control-max-age"] == b"86400"


# The address for GeoIP: PostHog's own header first, else the address of the client.
REPORTED_HEADER, FORWARDED_FOR = "HTTP_X_FORWARDED_FOR", "X-Forwarded-For"


def read_reported_address(
    headers: dict[str, str], client: tuple[str, int] | None = UNTRUSTED
) -> str | None:
    address = ORIGINS.reported_address(http_scope(headers=headers, client=client))
    return str(address) if address else None


@pytest.mark.parametrize("client", [PROXY, UNTRUSTED, None])
def test_posthog_header_of_any_client_counts(client: tuple[str, int] | None) -> None:
    assert read_reported_address({REPORTED_HEADER: "81.2.69.142"}, client) == "81.2.69.142"
    assert (
        read_reported_address({REPORTED_HEADER: "81.2.69.142", FORWARDED_FOR: "8.8.8.8"}, client)
        == "81.2.69.142"
    )


def test_first_of_several_addresses_counts() -> None:
    assert (
        read_reported_address({REPORTED_HEADER: " 81.2.69.142 , 10.0.0.7, 8.8.8.8"})
        == "81.2.69.142"
    )


def test_ipv4_and_ipv6_addresses_are_accepted() -> None:
    assert (
        read_reported_address({REPORTED_HEADER: "2001:4860:4860::8888"}) == "2001:4860:4860::8888"
    )
    assert read_reported_address({REPORTED_HEADER: "::ffff:81.2.69.142"}) == "81.2.69.142"
    assert read_reported_address({REPORTED_HEADER: "81.2.69.142:4711"}) == "81.2.69.142"
    assert read_reported_address({REPORTED_HEADER: "[2001:db8::1]:4711"}) == "2001:db8::1"


def test_reported_address_defaults_to_the_client_address() -> None:
    assert read_reported_address({FORWARDED_FOR: "81.2.69.142"}, PROXY) == "81.2.69.142"
    assert read_reported_address({FORWARDED_FOR: "81.2.69.142"}, UNTRUSTED) == "192.0.2.1"
    assert read_reported_address({}, UNTRUSTED) == "192.0.2.1"
    assert read_reported_address({}, None) is None


@pytest.mark.parametrize("text", ["unknown", "81.2.69", "999.1.1.1", "é", "x" * 5000, "1"])
def test_invalid_reported_address_is_none(text: str) -> None:
    assert read_reported_address({REPORTED_HEADER: text}) is None


def test_empty_header_is_ignored() -> None:
    assert read_reported_address({REPORTED_HEADER: ""}) == "192.0.2.1"


@pytest.mark.parametrize(
    ("peer", "forwarded_for", "group"),
    [
        ("192.0.2.1", "198.51.100.7", "192.0.2.1"),
        ("2001:db8::1:2", "", "2001:db8::/64"),
        ("::ffff:192.0.2.1", "", "192.0.2.1"),
        ("10.0.0.1", "198.51.100.7, 10.0.0.2", "198.51.100.7"),
        ("10.0.0.1", "2001:db8::9", "2001:db8::/64"),
        ("10.0.0.1", "nonsense", "10.0.0.1"),
        ("10.0.0.1", "", "10.0.0.1"),
    ],
)
def test_client_group_is_an_address_or_an_ipv6_network(
    peer: str, forwarded_for: str, group: str
) -> None:
    headers = [(b"x-forwarded-for", forwarded_for.encode())] if forwarded_for else []
    scope = {"client": (peer, 1234), "headers": headers}
    for _ in range(2):  # the second is cached
        assert Origins([ip_network("10.0.0.0/8")], "").client(scope).group == group
    assert Origins([], "").client({**scope, "client": ("192.0.2.1", 1)}).group == "192.0.2.1"
