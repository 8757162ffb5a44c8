"""HTTP client of an edge process for its origin, the service that it gets definitions from.

The operator names the origin, so no guard checks its address. Redirects are not followed.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

import aiohttp
from yarl import URL

from hedgerow.lib import jsonio

CONNECT_TIMEOUT_S = 3.0
FETCH_TIMEOUT_S = 60.0
# Between two parts of a document.
FETCH_SILENCE_S = 10.0
# The origin sends a heartbeat every 15 seconds.
SILENCE_S = 45.0
MAX_DOCUMENT_BYTES = 64 << 20
MAX_RESPONSE_BYTES = 32 << 20
MAX_EVENT_BYTES = 64 << 10
# Connections of forwarded requests. Streams have connections of their own.
MAX_FORWARDED = 256
KEEP_ALIVE_S = 15.0
AUTO_HEADERS = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")

Headers = Sequence[tuple[str, str]]


class OriginUnreachable(Exception):
    """The origin does not answer, or it answers that it cannot."""


class OriginRefused(Exception):
    """The origin does not accept the key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OriginRequest:
    """`path` begins with a slash, is encoded, and includes the query string."""

    method: str
    path: str
    headers: Headers
    body: bytes
    timeout_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class OriginResponse:
    """The names of the headers are in lower case."""

    status: int
    headers: Headers
    body: bytes


class OriginClient:
    """`url` has no trailing slash. With `socket_path`, all connections go to this Unix socket. A
    connection is used again within `keep_alive_s`."""

    def __init__(
        self, url: str, agent: str, socket_path: str = "", keep_alive_s: float = KEEP_ALIVE_S
    ) -> None:
        self._url = url
        self._socket_path = socket_path
        self._keep_alive_s = keep_alive_s
        self._agent = agent
        self._session: aiohttp.ClientSession | None = None

    async def fetch(self, path: str, key: str, etag: str) -> tuple[bytes, str] | None:
        """Return a document and its ETag, None if it still is the one of `etag`."""
        headers = {**self._build_headers(key), **({"If-None-Match": etag} if etag else {})}
        with _translate_errors():
            async with (
                asyncio.timeout(FETCH_TIMEOUT_S),
                self._open().get(
                    self._url + path,
                    headers=headers,
                    timeout=_build_timeout(FETCH_SILENCE_S),
                    allow_redirects=False,
                ) as response,
            ):
                if response.status == 304:
                    return None
                _check_status(response, await _read(response, MAX_EVENT_BYTES, is_part=True))
                return await _read(response, MAX_DOCUMENT_BYTES), response.headers.get("etag", "")

    async def stream(self, path: str, key: str) -> AsyncIterator[str]:
        """Yield the ETag of each event, until the origin ends the stream."""
        headers = {**self._build_headers(key), "Accept": "text/event-stream"}
        timeout = _build_timeout(SILENCE_S)
        with _translate_errors():
            async with self._open().get(
                self._url + path, headers=headers, timeout=timeout, allow_redirects=False
            ) as response:
                _check_status(response, b"")
                pending = b""
                async for chunk in response.content.iter_any():
                    *lines, pending = (pending + chunk).split(b"\n")
                    if len(pending) > MAX_EVENT_BYTES:
                        raise OriginUnreachable("an event of the stream is too long")
                    for line in lines:
                        if line.startswith(b"data:"):
                            yield _read_etag(line.removeprefix(b"data:"))

    async def forward(self, request: OriginRequest) -> OriginResponse:
        """Send the request of a client."""
        with _translate_errors():
            async with (
                asyncio.timeout(request.timeout_s),
                self._open().request(
                    request.method,
                    URL(self._url + request.path, encoded=True),
                    headers=request.headers,
                    data=request.body or None,
                    skip_auto_headers=AUTO_HEADERS,
                    allow_redirects=False,
                ) as response,
            ):
                body = await _read(response, MAX_RESPONSE_BYTES)
                headers = [(name.lower(), value) for name, value in response.headers.items()]
                return OriginResponse(status=response.status, headers=headers, body=body)

    @asynccontextmanager
    async def forward_streaming(
        self,
        method: str,
        path: str,
        headers: Headers,
        body: AsyncIterator[bytes] | None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send the request of a client whose body, and whose response, may be of any size."""
        with _translate_errors():
            async with self._open().request(
                method,
                URL(self._url + path, encoded=True),
                headers=headers,
                data=body,
                skip_auto_headers=AUTO_HEADERS,
                allow_redirects=False,
            ) as response:
                yield response

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    def _build_headers(self, key: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {key}", "User-Agent": self._agent}

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.UnixConnector(
                    self._socket_path, limit=0, keepalive_timeout=self._keep_alive_s
                )
                if self._socket_path
                else aiohttp.TCPConnector(limit=0, keepalive_timeout=self._keep_alive_s),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                requote_redirect_url=False,
                timeout=_build_timeout(None),
            )
        return self._session


def _build_timeout(silence_s: float | None) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S, sock_read=silence_s)


async def _read(response: aiohttp.ClientResponse, limit: int, *, is_part: bool = False) -> bytes:
    """Read the body. `is_part` reads nothing of a successful response, and a part of another."""
    if is_part and response.status == 200:
        return b""
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > limit:
            if is_part:
                break
            raise OriginUnreachable(f"its response is larger than {limit} bytes")
    return bytes(body)


def _check_status(response: aiohttp.ClientResponse, body: bytes) -> None:
    status = response.status
    if status == 200:
        return
    text = f"{status} {_read_detail(body)}".strip()
    if status in (401, 403, 404):
        raise OriginRefused(text)
    raise OriginUnreachable(text)


def _read_detail(body: bytes) -> str:
    try:
        value = jsonio.parse(body)
    except jsonio.JsonError:
        return ""
    detail = value.get("detail") if isinstance(value, dict) else None
    return detail[:500] if isinstance(detail, str) else ""


def _read_etag(data: bytes) -> str:
    try:
        value = jsonio.parse(data)
    except jsonio.JsonError:
        return ""
    etag = value.get("etag") if isinstance(value, dict) else None
    return etag if isinstance(etag, str) else ""


@contextmanager
def _translate_errors() -> Iterator[None]:
    try:
        yield
    except TimeoutError:
        raise OriginUnreachable("no answer in time") from None
    except aiohttp.ClientConnectorCertificateError as error:
        found = error.certificate_error
        reason = getattr(found, "verify_message", "") or str(found)
        raise OriginUnreachable(
            f"its certificate is not valid: {reason}. For an authority of your own, set "
            "SSL_CERT_FILE to the file of its certificate"
        ) from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise OriginUnreachable(str(error) or type(error).__name__) from None
