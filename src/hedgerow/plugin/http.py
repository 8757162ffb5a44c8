"""HTTP as components use it: requests, responses, the client, and webhook signatures."""

import base64
import binascii
import hmac
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

REQUEST_TIMEOUT_S = 10.0
SECRET_PREFIX = "whsec_"  # noqa: S105 - the prefix of a secret, not a secret


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One HTTP request. `timeout_s` bounds the time from the first byte sent to the response."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes
    timeout_s: float = REQUEST_TIMEOUT_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """A response with lower-case header names. `body` holds the first 64 kB at most."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamedResponse:
    """A response of any length. Iterating over `chunks` may raise TransportError."""

    status: int
    headers: Mapping[str, str]
    chunks: AsyncIterator[bytes]


class TransportError(Exception):
    """No response: the address is not allowed, the connection failed, or the request timed out.

    The message tells the operator what to check.
    """


class HttpClient(Protocol):
    """The HTTP client for components. It refuses private addresses unless the operator allows
    them, and does not follow redirects."""

    async def send(self, request: Request) -> Response:
        """Send a request. Raises TransportError if there is no response; every status, redirects
        included, is a response."""
        ...

    def stream(self, request: Request) -> AbstractAsyncContextManager[StreamedResponse]:
        """Send a request and read a response of any length. `timeout_s` applies to each chunk."""
        ...


def sign_webhook(id: str, now: datetime, body: bytes, secret: str) -> dict[str, str]:
    """Return the headers of Standard Webhooks (https://www.standardwebhooks.com) for a body.

    Without a secret, the headers carry the id and the timestamp but no signature.
    """
    headers = {"webhook-id": id, "webhook-timestamp": str(int(now.timestamp()))}
    if secret:
        signed = f"{id}.{headers['webhook-timestamp']}.".encode() + body
        digest = hmac.digest(_parse_signing_key(secret), signed, "sha256")
        headers["webhook-signature"] = "v1," + base64.b64encode(digest).decode()
    return headers


def _parse_signing_key(secret: str) -> bytes:
    """Decode a secret with the prefix of Standard Webhooks from base64; use any other as it is."""
    if secret.startswith(SECRET_PREFIX):
        try:
            return base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
        except (binascii.Error, ValueError):
            pass
    return secret.encode()
