"""Another PostHog-compatible instance: its API read page by page, as patiently as it asks for."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from hedgerow.lib import jsonio
from hedgerow.pipelines.model import JobProblem
from hedgerow.pipelines.sending import CannotSend, Outbound, Request

ANSWER_BYTES = 64 * 1024 * 1024
ANSWER_S = 60.0
# Who counts by the hour may say so much at once, and is believed as often as it says so.
MAX_WAIT_S = 3700.0
# Who says only that it is too much is given so long, so often.
UNSAID_WAIT_S = 10.0
WAITS = 10


class RefusedBy(JobProblem):
    """An answer that is none of ours to change: a wrong key, no such thing."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(f"The service answers {status}. {detail}".strip())
        self.status = status
        self.detail = detail


class TooLarge(JobProblem):
    def __init__(self) -> None:
        super().__init__(f"An answer has more than {ANSWER_BYTES} bytes.")


def is_address(text: str) -> bool:
    """Whether a service can be there. A name and password in it would be kept and shown."""
    try:
        host = urlsplit(text)
        _ = host.port
    except ValueError:
        return False
    return host.scheme in ("http", "https") and bool(host.hostname) and "@" not in host.netloc


class Instance:
    """One project of it. `pauses_s` are how long to wait, one after the other, before asking again
    where nobody answers."""

    def __init__(
        self,
        host: str,
        key: str,
        project_id: str,
        *,
        http: Outbound,
        sleep: Callable[[float], Awaitable[None]],
        pauses_s: Sequence[float] = (),
    ) -> None:
        self._host = host.rstrip("/")
        self._key = key
        self._project_id = project_id
        self._http = http
        self._sleep = sleep
        self._pauses_s = pauses_s

    def url(self, path: str, **asked: Any) -> str:
        query = f"?{urlencode(asked)}" if asked else ""
        return f"{self._host}/api/projects/{self._project_id}/{path}{query}"

    async def get(self, url: str) -> Any:
        """What a GET gives: JSON, or CannotSend, RefusedBy."""
        for pause_s in self._pauses_s:
            try:
                return await self._answer("GET", url, b"")
            except CannotSend:
                await self._sleep(pause_s)
        return await self._answer("GET", url, b"")

    async def post(self, url: str, body: Any) -> Any:
        """The same of a POST that only asks, and once: whoever asks so can do without."""
        return await self._answer("POST", url, jsonio.encode(body))

    async def page(self, url: str) -> tuple[list[dict[str, Any]], str, int | None]:
        """The items of a page, the address of the next if there is one, and how many there are in
        all if it says so."""
        page = await self._fitting(self._ours(url))
        if isinstance(page, list):
            page = {"results": page}
        results = page.get("results") if isinstance(page, dict) else None
        following = page.get("next") if isinstance(page, dict) else None
        if not isinstance(results, list) or not isinstance(following, str | None):
            raise JobProblem("The answer is no page of a list.")
        count = page.get("count")
        items = [each for each in results if isinstance(each, dict)]
        behind = self._ours(following) if following else ""
        return items, behind, count if isinstance(count, int) else None

    def _ours(self, url: str) -> str:
        """An address that somebody else wrote down, behind the host that was given: the key is for
        that one alone, and a service does not always know by which name it is called."""
        try:
            parts = urlsplit(url)
        except ValueError:
            raise JobProblem("The address of the next page cannot be read.") from None
        path = parts.path.removeprefix(urlsplit(self._host).path)
        plain = unquote(path)
        below = unquote(f"/api/projects/{self._project_id}/")
        if not plain.startswith(below) or ".." in plain.split("/"):
            raise JobProblem("The next page is said to be at another address.")
        return f"{self._host}{path}" + (f"?{parts.query}" if parts.query else "")

    async def _fitting(self, url: str) -> Any:
        """A page with fewer items where it would be too large."""
        while True:
            try:
                return await self.get(url)
            except TooLarge:
                asked = asked_in(url)
                limit = int(asked["limit"]) if asked.get("limit", "").isdecimal() else 0
                if limit < 2:
                    raise
                url = asking(url, limit=limit // 2)

    async def _answer(self, method: str, url: str, sent: bytes) -> Any:
        """Whoever says that it is too much is given the time that it asks for."""
        headers = {"authorization": f"Bearer {self._key}", "accept": "application/json"}
        if sent:
            headers["content-type"] = "application/json"
        request = Request(method=method, url=url, headers=headers, body=sent, timeout_s=ANSWER_S)
        unsaid = 0
        while True:
            async with self._http.stream(request) as stream:
                body = bytearray()
                async for part in stream.parts:
                    body += part
                    if len(body) > ANSWER_BYTES:
                        raise TooLarge
            said_s = _said_s(stream.headers)
            unsaid += said_s is None
            if stream.status != 429 or unsaid > WAITS:
                break
            await self._sleep(UNSAID_WAIT_S if said_s is None else said_s)
        if stream.status >= 500:
            raise CannotSend(f"The service answers {stream.status}.")
        return _read(stream.status, stream.headers, bytes(body))


def _said_s(headers: Mapping[str, str]) -> float | None:
    """How long it asks to be left alone: a second at least, for whoever says none says it again."""
    said = headers.get("retry-after", "")
    return min(max(float(said), 1.0), MAX_WAIT_S) if said.isdecimal() else None


def _read(status: int, headers: Mapping[str, str], body: bytes) -> Any:
    try:
        value = jsonio.parse(body)
    except jsonio.JsonError:
        value = None
    if 300 <= status < 400:
        raise RefusedBy(status, f"It sends you to {headers.get('location', 'another address')}.")
    if status != 200:
        detail = value.get("detail") if isinstance(value, dict) else ""
        raise RefusedBy(status, str(detail or ""))
    if not isinstance(value, dict | list):
        raise JobProblem("The answer is no JSON object or list.")
    return value


def asked_in(url: str) -> dict[str, str]:
    """The parameters of an address."""
    return dict(parse_qsl(urlsplit(url).query))


def asking(url: str, **changes: Any) -> str:
    """An address with other parameters; None takes one away."""
    asked = {name: value for name, value in asked_in(url).items() if name not in changes}
    asked |= {name: value for name, value in changes.items() if value is not None}
    return urlsplit(url)._replace(query=urlencode(asked)).geturl()
