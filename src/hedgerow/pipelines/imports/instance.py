"""A client for the API of another PostHog-compatible instance, with paging and rate limits."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeVar
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from hedgerow.lib import jsonio
from hedgerow.lib.text import truncate
from hedgerow.plugin.http import HttpClient, Request, StreamedResponse, TransportError
from hedgerow.plugin.imports import JobError

T = TypeVar("T")

MAX_RESPONSE_BYTES = 64 * 1024 * 1024
# Of errors and of queries for a single value.
MAX_SHORT_RESPONSE_BYTES = 64 * 1024
MAX_DETAIL_CHARACTERS = 1000
MAX_URL_CHARACTERS = 8192
RESPONSE_TIMEOUT_S = 60.0
# Hourly rate limits may ask for about an hour; the client waits as often as it is asked.
MAX_RETRY_AFTER_S = 3700.0
# The wait after a 429 without Retry-After, and how often.
DEFAULT_RETRY_AFTER_S = 10.0
MAX_DEFAULT_WAITS = 10


class InstanceError(JobError):
    """The instance refuses the request: a wrong key, or an object that does not exist."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(f"The instance responds with HTTP {status}. {detail}".strip())
        self.status = status
        self.detail = detail


class ResponseTooLarge(JobError):
    def __init__(self, max_bytes: int) -> None:
        super().__init__(f"A response is larger than {max_bytes} bytes.")


def is_instance_url(text: str) -> bool:
    """Whether a text is a usable URL without user and password, which would be stored unmasked."""
    try:
        host = urlsplit(text)
        _ = host.port
    except ValueError:
        return False
    return host.scheme in ("http", "https") and bool(host.hostname) and "@" not in host.netloc


class PostHogInstance:
    """One project of an instance. `pauses_s` are the pauses between retries without a response."""

    def __init__(
        self,
        host: str,
        key: str,
        project_id: str,
        *,
        http: HttpClient,
        sleep: Callable[[float], Awaitable[None]],
        pauses_s: Sequence[float] = (),
    ) -> None:
        self._host = host.rstrip("/")
        self._key = key
        self._project_id = project_id
        self._http = http
        self._sleep = sleep
        self._pauses_s = pauses_s

    def url(self, path: str, **parameters: Any) -> str:
        query = f"?{urlencode(parameters)}" if parameters else ""
        return f"{self._host}/api/projects/{self._project_id}/{path}{query}"

    async def get(self, url: str) -> Any:
        """GET a URL and return its JSON. Raises TransportError or InstanceError."""
        for pause_s in self._pauses_s:
            try:
                return await self._request("GET", url, b"")
            except TransportError:
                await self._sleep(pause_s)
        return await self._request("GET", url, b"")

    async def post(self, url: str, body: Any) -> Any:
        """POST a query with a short answer and without side effects, without retries."""
        return await self._request("POST", url, jsonio.encode(body), MAX_SHORT_RESPONSE_BYTES)

    async def page(self, url: str) -> tuple[list[dict[str, Any]], str, int | None]:
        """Return the items of a page, the URL of the next page or "", and the total if known.
        Parses the page here: for commands, not for the service."""
        items, following, count = parse_page(await fetch_fitting(self.rebase_url(url), self.get))
        next_url = self.rebase_url(following) if following else ""
        return [each for each in items if isinstance(each, dict)], next_url, count

    def open_page(self, url: str) -> AbstractAsyncContextManager[StreamedResponse]:
        """Request a page. Yields its body."""
        return self._open("GET", self.rebase_url(url), b"")

    def rebase_url(self, url: str) -> str:
        """Return a URL from a response with the configured host. The key must not be sent anywhere
        else, and an instance does not always know its public name."""
        try:
            parts = urlsplit(url)
        except ValueError:
            raise JobError("The URL of the next page is invalid.") from None
        path = parts.path.removeprefix(urlsplit(self._host).path)
        plain = unquote(path)
        below = unquote(f"/api/projects/{self._project_id}/")
        if not plain.startswith(below) or ".." in plain.split("/"):
            raise JobError("The URL of the next page points to another address.")
        return f"{self._host}{path}" + (f"?{parts.query}" if parts.query else "")

    async def _request(
        self, method: str, url: str, body: bytes, max_bytes: int | None = None
    ) -> Any:
        async with self._open(method, url, body) as stream:
            content = await _read_bounded(stream, max_bytes or MAX_RESPONSE_BYTES)
        try:
            value = jsonio.parse(content)
        except jsonio.JsonError:
            value = None
        if not isinstance(value, dict | list):
            raise JobError("The response is not a JSON object or list.")
        return value

    @asynccontextmanager
    async def _open(self, method: str, url: str, body: bytes) -> AsyncIterator[StreamedResponse]:
        """Send a request, and wait and repeat it while the instance responds with 429."""
        headers = {"authorization": f"Bearer {self._key}", "accept": "application/json"}
        if body:
            headers["content-type"] = "application/json"
        request = Request(
            method=method, url=url, headers=headers, body=body, timeout_s=RESPONSE_TIMEOUT_S
        )
        default_waits = 0
        while True:
            async with self._http.stream(request) as stream:
                retry_after_s = _parse_retry_after(stream.headers)
                default_waits += retry_after_s is None
                if stream.status != 429 or default_waits > MAX_DEFAULT_WAITS:
                    if stream.status != 200:
                        raise await _read_error(stream)
                    yield stream
                    return
            await self._sleep(DEFAULT_RETRY_AFTER_S if retry_after_s is None else retry_after_s)


async def fetch_fitting(url: str, fetch: Callable[[str], Awaitable[T]]) -> T:
    """Fetch a page; if it is too large, with fewer items."""
    while True:
        try:
            return await fetch(url)
        except ResponseTooLarge:
            parameters = query_parameters(url)
            limit = int(parameters["limit"]) if parameters.get("limit", "").isdecimal() else 0
            if limit < 2:
                raise
            url = with_query_parameters(url, limit=limit // 2)


def parse_page(page: Any) -> tuple[list[Any], str, int | None]:
    """Return the items of a page, the URL of the next page as it is sent or "", and the total if
    known."""
    if isinstance(page, list):
        page = {"results": page}
    results = page.get("results") if isinstance(page, dict) else None
    following = page.get("next") if isinstance(page, dict) else None
    if not isinstance(results, list) or not isinstance(following, str | None):
        raise JobError("The response is not a page of a list.")
    if following and len(following) > MAX_URL_CHARACTERS:
        raise JobError(f"The URL of the next page is longer than {MAX_URL_CHARACTERS} characters.")
    count = page.get("count")
    return results, following or "", count if isinstance(count, int) else None


async def _read_bounded(stream: StreamedResponse, max_bytes: int) -> bytes:
    content = bytearray()
    async for part in stream.chunks:
        content += part
        if len(content) > max_bytes:
            raise ResponseTooLarge(max_bytes)
    return bytes(content)


async def _read_error(stream: StreamedResponse) -> TransportError | InstanceError:
    """Return the error of a response that has not the status 200."""
    status = stream.status
    if status >= 500:
        return TransportError(f"The instance responds with HTTP {status}.")
    if 300 <= status < 400:
        location = truncate(stream.headers.get("location", "another address"))
        return InstanceError(status, f"It redirects to {location}.")
    try:
        value = jsonio.parse(await _read_bounded(stream, MAX_SHORT_RESPONSE_BYTES))
    except (jsonio.JsonError, ResponseTooLarge):
        value = None
    detail = value.get("detail") if isinstance(value, dict) else ""
    return InstanceError(status, str(detail or "")[:MAX_DETAIL_CHARACTERS])


def _parse_retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds of Retry-After, at least one: a 0 would be repeated."""
    value = headers.get("retry-after", "")
    return min(max(float(value), 1.0), MAX_RETRY_AFTER_S) if value.isdecimal() else None


def query_parameters(url: str) -> dict[str, str]:
    """Return the query parameters of a URL."""
    return dict(parse_qsl(urlsplit(url).query))


def with_query_parameters(url: str, **changes: Any) -> str:
    """Return a URL with changed query parameters; None removes one."""
    parameters = {
        name: value for name, value in query_parameters(url).items() if name not in changes
    }
    parameters |= {name: value for name, value in changes.items() if value is not None}
    return urlsplit(url)._replace(query=urlencode(parameters)).geturl()
