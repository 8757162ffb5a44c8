"""Requests to an OpenID Connect provider.

The operator names the issuer, so its own host may be in a private network. What the provider names
in turn, such as the address of its keys, passes the SSRF guard like every other address.
"""

from urllib.parse import urlsplit

from hedgerow.people.oidc.model import ProviderError, ProviderHttp, ProviderRequest
from hedgerow.plugin.http import HttpClient, Request, TransportError

TIMEOUT_S = 8.0
# The client reads no more than 64 KiB of a body.
MAX_BODY_BYTES = 64 * 1024


class GuardedProviderHttp(ProviderHttp):
    """`own` may reach private networks, `guarded` may not."""

    def __init__(self, issuer: str, own: HttpClient, guarded: HttpClient) -> None:
        self._own_place = _get_place(issuer)
        self._own = own
        self._guarded = guarded

    async def fetch(self, request: ProviderRequest) -> tuple[int, bytes]:
        is_own = _get_place(request.url) == self._own_place
        client = self._own if is_own else self._guarded
        try:
            response = await client.send(
                Request(
                    method=request.method,
                    url=request.url,
                    headers=request.headers,
                    body=request.body,
                    timeout_s=TIMEOUT_S,
                )
            )
        except TransportError as error:
            host = urlsplit(request.url).hostname
            raise ProviderError(f"Cannot reach {host} of the provider: {error}") from None
        if len(response.body) >= MAX_BODY_BYTES:
            raise ProviderError("A response of the provider is longer than 64 KiB.")
        return response.status, response.body


def _get_place(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc.lower()
