"""Where a request came from and which address it used, believing forwarded headers of trusted
proxies only.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

from starlette.types import Scope

from hedgerow.http.reply import Header

Network = IPv4Network | IPv6Network
Address = IPv4Address | IPv6Address

_GOOD_HOST = re.compile(r"[A-Za-z0-9._\-]+(:\d{1,5})?|\[[0-9A-Fa-f:.]+\](:\d{1,5})?")


class Origins:
    """Reads addresses off requests. `public_url`, when set, is the answer to `base_url` always."""

    def __init__(self, trusted: Sequence[Network], public_url: str) -> None:
        self._trusted = tuple(trusted)
        self._public_url = public_url
        # The same few proxies and visitors send most requests.
        self._is_trusted = lru_cache(maxsize=1024)(self._is_in_trusted)

    def base_url(self, scope: Scope) -> str:
        """Scheme and host as the client wrote them, without a trailing slash."""
        if self._public_url:
            return self._public_url
        scheme, host = scope["scheme"], header(scope, b"host")
        if self._is_trusted(_peer(scope)):
            scheme = _last(header(scope, b"x-forwarded-proto")) or scheme
            host = _last(header(scope, b"x-forwarded-host")) or host
        if scheme not in ("http", "https"):
            scheme = scope["scheme"]
        if not _GOOD_HOST.fullmatch(host):
            host = _own_host(scope)
        return f"{scheme}://{host}"

    def client_address(self, scope: Scope) -> Address | None:
        """The nearest address on the way to us that is not one of our own proxies."""
        peer = _peer(scope)
        if not self._is_trusted(peer):
            return peer
        hops = [_address(hop) for hop in header(scope, b"x-forwarded-for").split(",")]
        for hop in reversed(hops):
            if hop is None:
                return peer
            if not self._is_trusted(hop):
                return hop
            peer = hop
        return peer

    def said_address(self, scope: Scope) -> Address | None:
        """The address that a caller gives for somebody else in PostHog's own header, else the
        client's."""
        said = header(scope, b"http_x_forwarded_for").partition(",")[0]
        return _address(said) if said else self.client_address(scope)

    def _is_in_trusted(self, address: Address | None) -> bool:
        return address is not None and any(
            address.version == network.version and address in network for network in self._trusted
        )


def header(scope: Scope, name: bytes) -> str:
    """All values of a header as one, as if sent once; "" when absent."""
    return ",".join(value.decode("latin-1") for key, value in scope["headers"] if key == name)


def cors(scope: Scope, origin: bytes, methods: str) -> list[Header]:
    """What a browser on another site needs in order to call a public endpoint."""
    asked = header(scope, b"access-control-request-headers")
    headers = [
        (b"access-control-allow-origin", origin),
        (b"access-control-allow-credentials", b"true"),
        (b"access-control-allow-methods", methods.encode()),
        (
            b"access-control-allow-headers",
            (asked or "X-Requested-With,Content-Type").encode("latin-1"),
        ),
        (b"vary", b"Origin"),
    ]
    if asked:
        headers.append((b"access-control-max-age", b"86400"))
    return headers


def _own_host(scope: Scope) -> str:
    host, port = scope["server"] or ("localhost", 80)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _peer(scope: Scope) -> Address | None:
    return _address(scope["client"][0]) if scope.get("client") else None


@lru_cache(maxsize=1024)
def _address(text: str) -> Address | None:
    try:
        address = ip_address(text.strip())
    except ValueError:
        return None
    # A socket for both families shows IPv4 peers in their IPv6 form.
    return getattr(address, "ipv4_mapped", None) or address


def _last(value: str) -> str:
    return value.rpartition(",")[2].strip()
