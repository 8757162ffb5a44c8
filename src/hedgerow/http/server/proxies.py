"""The client address and base URL of a request, with forwarded headers of trusted proxies, and the
CORS headers.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import NamedTuple

from starlette.types import Scope

from hedgerow.http.server.headers import read_header
from hedgerow.http.server.response import Header

Network = IPv4Network | IPv6Network
Address = IPv4Address | IPv6Address

# Names that do not exist in the public DNS (RFC 6761, RFC 6762 appendix G, RFC 8375).
PRIVATE_SUFFIXES = (
    ".corp",
    ".home",
    ".home.arpa",
    ".internal",
    ".intranet",
    ".lan",
    ".local",
    ".localhost",
    ".private",
    ".test",
)
_WITH_PORT = re.compile(r"(?:\[(.+)\]|(\d+(?:\.\d+){3}))(?::\d{1,5})?")
# A chain of proxies is shorter. Longer headers would fill the cache of clients.
MAX_CHAIN_CHARS = 1000
_VALID_HOST = re.compile(r"[A-Za-z0-9._\-]+(:\d{1,5})?|\[[0-9A-Fa-f:.]+\](:\d{1,5})?")


class Client(NamedTuple):
    """The client of a request. For `group` see `group_address`."""

    address: Address | None
    text: str
    group: str


class Origins:
    """Reads addresses from requests. `public_url`, if set, overrides the base URL. Without it, the
    Host header of a client counts only if it names no other site, and that of a trusted proxy
    always."""

    def __init__(self, trusted: Sequence[Network], public_url: str) -> None:
        self._trusted = tuple(trusted)
        self._public_url = public_url
        # A few addresses send most requests.
        self._is_trusted = lru_cache(maxsize=1024)(self._is_in_trusted)
        self._find_client = lru_cache(maxsize=4096)(self._parse_client)

    def base_url(self, scope: Scope) -> str:
        """Return scheme and host as the client sees them, without a trailing slash."""
        if self._public_url:
            return self._public_url
        scheme, host = scope["scheme"], read_header(scope, b"host")
        if self._is_trusted(_peer(scope)):
            scheme = _last_value(read_header(scope, b"x-forwarded-proto")) or scheme
            host = _last_value(read_header(scope, b"x-forwarded-host")) or host
        elif not is_local_host(host):
            # Anybody can send the name of another site. Links must not lead there.
            host = _own_host(scope)
        if scheme not in ("http", "https"):
            scheme = scope["scheme"]
        if not _VALID_HOST.fullmatch(host):
            host = _own_host(scope)
        return f"{scheme}://{host}"

    def client_address(self, scope: Scope) -> Address | None:
        """Return the last address in the chain that is not a trusted proxy."""
        return self.client(scope).address

    def client(self, scope: Scope) -> Client:
        peer = scope["client"][0] if scope.get("client") else ""
        forwarded_for = read_header(scope, b"x-forwarded-for") if self._trusted else ""
        return self.find_client(peer, forwarded_for)

    def find_client(self, peer: str, forwarded_for: str) -> Client:
        """Return the client of a connection with `peer` and this `X-Forwarded-For`."""
        return self._find_client(peer, forwarded_for[-MAX_CHAIN_CHARS:])

    def _parse_client(self, peer: str, forwarded_for: str) -> Client:
        address = self._split_chain(_parse_address(peer), forwarded_for)[0]
        if address is None:
            return Client(None, "", peer)
        return Client(address, str(address), _group(address))

    def address_before_client(self, scope: Scope) -> Address | None:
        """Return the first address that the client itself states in `X-Forwarded-For`, None if it
        states none or does not call through a trusted proxy."""
        forwarded_for = read_header(scope, b"x-forwarded-for")
        stated = self._split_chain(_peer(scope), forwarded_for)[1]
        return stated[0] if stated else None

    def _split_chain(
        self, peer: Address | None, forwarded_for: str
    ) -> tuple[Address | None, Sequence[Address | None]]:
        """Return the client address, and the addresses before it in `X-Forwarded-For`."""
        if not self._is_trusted(peer):
            return peer, ()
        hops = [_parse_address(hop) for hop in forwarded_for.split(",")]
        while hops:
            hop = hops.pop()
            if hop is None:
                return peer, ()
            if not self._is_trusted(hop):
                return hop, hops
            peer = hop
        return peer, ()

    def reported_address(self, scope: Scope) -> Address | None:
        """Return the address in PostHog's own header, which any client may set, else the client's
        address."""
        reported = read_header(scope, b"http_x_forwarded_for").partition(",")[0]
        return _parse_address(reported) if reported else self.client_address(scope)

    def stated_address(self, scope: Scope) -> Address | None:
        """Return the first address in the `X-Forwarded-For` of a client that is not a trusted
        proxy, which may be any address."""
        if self._is_trusted(_peer(scope)):
            return None
        return _parse_address(read_header(scope, b"x-forwarded-for").partition(",")[0])

    def is_proxy(self, address: str) -> bool:
        """Whether the address, as text, is that of a trusted proxy. Another process of this
        machine, which has none, is one."""
        return not address or self._is_trusted(_parse_address(address.partition("/")[0]))

    def _is_in_trusted(self, address: Address | None) -> bool:
        return address is not None and any(
            address.version == network.version and address in network for network in self._trusted
        )


def build_cors_headers(
    scope: Scope, origin: bytes, methods: str, *, allows_credentials: bool = False
) -> list[Header]:
    """Build the headers with which a browser lets another site call a public endpoint. posthog-js
    sends some requests with credentials, and needs permission although nothing here reads them."""
    requested = read_header(scope, b"access-control-request-headers")
    headers = [
        (b"access-control-allow-origin", origin),
        (b"access-control-allow-methods", methods.encode()),
        (
            b"access-control-allow-headers",
            (requested or "X-Requested-With,Content-Type").encode("latin-1"),
        ),
        (b"vary", b"Origin"),
    ]
    if allows_credentials:
        headers.append((b"access-control-allow-credentials", b"true"))
    if requested:
        headers.append((b"access-control-max-age", b"86400"))
    return headers


@lru_cache(maxsize=4096)
def group_address(text: str) -> str:
    """Return what counts as one client: an IPv4 address, or the first 64 bits of an IPv6 address,
    because a client has all addresses that begin with them."""
    address = _parse_address(text)
    return _group(address) if address else text


def _group(address: Address) -> str:
    if isinstance(address, IPv6Address):
        return str(IPv6Network((int(address) >> 64 << 64, 64)))
    return str(address)


def choose_host(url: bytes, headers: list[tuple[bytes, bytes]], version: str) -> bool:
    """Whether there is exactly one Host header, with a host and perhaps a port. HTTP/1.0 needs
    none. The host of an absolute URL takes precedence and replaces it (RFC 9112, 3.2.2)."""
    hosts = [value.strip(b" \t") for name, value in headers if name == b"host"]
    if len(hosts) != 1 and (hosts or version != "1.0"):
        return False
    host = None if url.startswith(b"/") else parse_authority(url)
    if host is not None:
        headers[:] = [each for each in headers if each[0] != b"host"]
        headers.append((b"host", host))
        return is_valid_host(host)
    return all(map(is_valid_host, hosts))


@lru_cache(maxsize=1024)
def is_valid_host(host: bytes) -> bool:
    return _VALID_HOST.fullmatch(host.decode("latin-1")) is not None


@lru_cache(maxsize=1024)
def is_local_host(host: str) -> bool:
    """Whether a host cannot be on the public internet: a private address, a name without a dot, or
    one with a suffix for private networks."""
    name = host.rpartition(":")[0] if re.search(r":\d{1,5}$", host) else host
    address = _parse_address(name.strip("[]"))
    if address is not None:
        return address.is_private or address.is_loopback or address.is_link_local
    return "." not in name or name.lower().endswith(PRIVATE_SUFFIXES)


def is_loopback_host(name: str) -> bool:
    """Whether a host name, without a port, is this machine."""
    address = _parse_address(name.strip("[]"))
    if address is not None:
        return address.is_loopback
    return name.lower() == "localhost" or name.lower().endswith(".localhost")


def parse_authority(url: bytes) -> bytes | None:
    """Return host and port of an absolute URL; None if the URL is not absolute."""
    scheme, separator, rest = url.partition(b"://")
    if not separator or scheme.lower() not in (b"http", b"https"):
        return None
    return re.split(rb"[/?#]", rest, maxsplit=1)[0]


def _own_host(scope: Scope) -> str:
    host, port = scope["server"] or ("localhost", 80)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _peer(scope: Scope) -> Address | None:
    return _parse_address(scope["client"][0]) if scope.get("client") else None


@lru_cache(maxsize=1024)
def _parse_address(text: str) -> Address | None:
    try:
        # Some proxies add the port.
        address = ip_address(_WITH_PORT.sub(r"\1\2", text.strip()))
    except ValueError:
        return None
    # A dual-stack socket reports IPv4 peers as IPv6 addresses.
    return getattr(address, "ipv4_mapped", None) or address


def _last_value(value: str) -> str:
    return value.rpartition(",")[2].strip()
