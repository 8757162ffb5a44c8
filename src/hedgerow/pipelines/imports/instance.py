"""Another PostHog-compatible instance: its API read page by page, as patiently as it asks for."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from hedgerow.events.dates import EARLIEST, asked_moment
from hedgerow.kit import jsonio
from hedgerow.kit.clock import Clock
from hedgerow.pipelines.imports.model import BadRow, Portion, SourceRow
from hedgerow.pipelines.model import JobProblem
from hedgerow.pipelines.sending import CannotSend, Outbound, Request

AT_ONCE = 500
ANSWER_BYTES = 64 * 1024 * 1024
ANSWER_S = 60.0
# Events may arrive late: what happened so long before the last one is asked for again.
OVERLAP = timedelta(hours=1)
# The shortest time that sources tell apart.
INSTANT = timedelta(milliseconds=1)
MAX_WAIT_S = 120.0
WAITS = 10


class RefusedBy(JobProblem):
    """An answer that is none of ours to change: a wrong key, no such thing."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(f"The service answers {status}. {detail}".strip())
        self.status = status
        self.detail = detail


def is_address(text: str) -> bool:
    try:
        host = urlsplit(text)
        _ = host.port
    except ValueError:
        return False
    return host.scheme in ("http", "https") and bool(host.hostname)


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
        return await self._asked("GET", url, b"")

    async def post(self, url: str, body: Any) -> Any:
        """The same of a POST that only asks."""
        return await self._asked("POST", url, jsonio.encode(body))

    async def page(self, url: str) -> tuple[list[dict[str, Any]], str, int | None]:
        """The items of a page, the address of the next if there is one, and how many there are in
        all if it says so."""
        page = await self.get(url)
        if isinstance(page, list):
            page = {"results": page}
        results = page.get("results") if isinstance(page, dict) else None
        following = page.get("next") if isinstance(page, dict) else None
        if not isinstance(results, list) or not isinstance(following, str | None):
            raise JobProblem("The answer is no page of a list.")
        if following and _origin(following) != _origin(self._host):
            # The key is for one service alone.
            raise JobProblem("The next page is said to be at another address.")
        count = page.get("count")
        items = [each for each in results if isinstance(each, dict)]
        return items, following or "", count if isinstance(count, int) else None

    async def _asked(self, method: str, url: str, body: bytes) -> Any:
        for pause_s in self._pauses_s:
            try:
                return await self._answer(method, url, body)
            except CannotSend:
                await self._sleep(pause_s)
        return await self._answer(method, url, body)

    async def _answer(self, method: str, url: str, sent: bytes) -> Any:
        """Whoever says that it is too much is given the time that it asks for."""
        headers = {"authorization": f"Bearer {self._key}", "accept": "application/json"}
        if sent:
            headers["content-type"] = "application/json"
        request = Request(method=method, url=url, headers=headers, body=sent, timeout_s=ANSWER_S)
        for _ in range(WAITS):
            async with self._http.stream(request) as stream:
                body = bytearray()
                async for part in stream.parts:
                    body += part
                    if len(body) > ANSWER_BYTES:
                        raise JobProblem(f"An answer has more than {ANSWER_BYTES} bytes.")
            if stream.status != 429:
                break
            await self._sleep(_wait_s(stream.headers))
        if stream.status >= 500:
            raise CannotSend(f"The service answers {stream.status}.")
        return _read(stream.status, stream.headers, bytes(body))


def _wait_s(headers: Mapping[str, str]) -> float:
    said = headers.get("retry-after", "")
    return min(float(said) if said.isdecimal() else 10.0, MAX_WAIT_S)


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


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    return parts.scheme, parts.hostname, port


async def events_of(
    instance: Instance, since: str, cursor: Any, clock: Clock
) -> AsyncGenerator[Portion]:
    """Oldest first, page after page. The next run begins a little before where this one ended."""
    newest = cursor["newest"] if cursor else ""
    url = (cursor or {}).get("next") or _first(instance, since, newest, clock)
    while url:
        results, following, _ = await instance.page(url)
        rows = [_row(each) for each in results if each.get("id")]
        bad = [
            BadRow(place=f"an event of {urlsplit(url).hostname}", reason="It has no id.")
            for each in results
            if not each.get("id")
        ]
        moments = [row.values["timestamp"] for row in rows]
        newest = max([newest, *(each for each in moments if isinstance(each, str))])
        url = _rewound(following, rows)
        yield Portion(rows=rows, bad=bad, cursor={"newest": newest, "next": url})


def _rewound(following: str, rows: Sequence[SourceRow]) -> str:
    """Where a next page is all that comes after the moment of the last event, others of that moment
    would be left out: it begins a little before, if that is not back where this one began."""
    asked = dict(parse_qsl(urlsplit(following).query))
    try:
        begun, last, after = map(
            datetime.fromisoformat,
            (rows[0].values["timestamp"], rows[-1].values["timestamp"], asked["after"]),
        )
        if after != last or begun >= last - INSTANT:
            return following
    except (IndexError, KeyError, TypeError, ValueError):
        return following
    asked["after"] = (last - INSTANT).isoformat()
    return urlsplit(following)._replace(query=urlencode(asked)).geturl()


def _first(instance: Instance, since: str, newest: str, clock: Clock) -> str:
    after = EARLIEST
    if newest:
        # A clock that is wrong there must not hide what comes after.
        after = min(datetime.fromisoformat(newest), clock()) - OVERLAP
    elif since:
        # What happened at that very moment is not after it.
        after = asked_moment(since, clock(), UTC, "config__date_from") - INSTANT
    return instance.url("events/", limit=AT_ONCE, orderBy='["timestamp"]', after=after.isoformat())


def _row(event: dict[str, Any]) -> SourceRow:
    properties = event.get("properties")
    values = {
        "uuid": event["id"],
        "event": event.get("event"),
        "distinct_id": event.get("distinct_id"),
        "timestamp": event.get("timestamp"),
        "properties": properties if isinstance(properties, dict) else {},
        "elements_chain": event.get("elements_chain"),
    }
    place = f"event {event['id']}"
    return SourceRow(identity=str(event["id"]), place=place, values=values)
