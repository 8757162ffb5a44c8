"""Events of an instance whose next page is what comes after a moment, as PostHog's is."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest

from hedgerow.pipelines.imports import instance as reading
from hedgerow.pipelines.imports import instance_events
from hedgerow.pipelines.imports.instance import Instance, RefusedBy, is_address
from hedgerow.pipelines.imports.instance_events import events_of
from hedgerow.pipelines.imports.model import BadRow
from hedgerow.pipelines.model import JobProblem
from hedgerow.pipelines.sending import CannotSend, Request, Response, Stream

HOST = "https://there.example.com"
START = datetime(2026, 1, 1, tzinfo=UTC)
PAGE = 5


class ByTime:
    """Its events lie so many milliseconds after the start. It looks through a year at most, as
    newer PostHogs. `ill` are statuses to answer with; `oldest` is its answer to a query."""

    def __init__(self, *offsets_ms: int, elsewhere: str = HOST) -> None:
        self._events = [
            {"id": str(n), "timestamp": (START + timedelta(milliseconds=each)).isoformat()}
            for n, each in enumerate(sorted(offsets_ms))
        ]
        self._elsewhere = elsewhere
        self.now = START + timedelta(days=1)
        self.oldest: Any = None
        self.ill: list[tuple[int, dict[str, str]]] = []
        self.slept: list[float] = []
        self.urls: list[str] = []

    async def send(self, request: Request) -> Response:
        raise NotImplementedError

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        assert request.headers["authorization"] == "Bearer key"
        assert request.url.startswith(f"{HOST}/api/projects/7/")
        status, headers = self.ill.pop(0) if self.ill else (200, {})
        told: Any = {"detail": "No."}
        if status == 200:
            status, told = self._answer(request)

        async def parts() -> AsyncIterator[bytes]:
            yield json.dumps(told).encode()

        yield Stream(status=status, headers=headers, parts=parts())

    def _answer(self, request: Request) -> tuple[int, Any]:
        if request.method == "POST":
            return 200, {"results": [[self.oldest]]}
        self.urls.append(request.url)
        asked = dict(parse_qsl(urlsplit(request.url).query))
        after = datetime.fromisoformat(asked["after"])
        before = datetime.fromisoformat(asked["before"]) if "before" in asked else self.now
        if before - after > timedelta(days=366):
            return 400, {"detail": "Date range cannot exceed 1 year"}
        moments = [(each, datetime.fromisoformat(each["timestamp"])) for each in self._events]
        found = [each for each, moment in moments if after < moment < before]
        found = found[int(asked.get("offset", 0)) :]
        limit = min(int(asked.get("limit", PAGE)), PAGE)
        page = found[:limit]
        following = None
        if len(found) > limit:
            # Whatever else was asked for stays, also an offset.
            query = urlencode({**asked, "after": page[-1]["timestamp"]})
            following = f"{self._elsewhere}/api/projects/7/events/?{query}"
        return 200, {"results": page, "next": following}

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


def instance(http: ByTime, *pauses_s: float) -> Instance:
    return Instance(HOST, "key", "7", http=http, sleep=http.sleep, pauses_s=pauses_s)


async def read(http: ByTime, since: str = "") -> tuple[list[str], list[BadRow]]:
    portions = [each async for each in events_of(instance(http), since, None, lambda: http.now)]
    rows = [row.identity for each in portions for row in each.rows]
    return rows, [row for each in portions for row in each.bad]


async def ids(http: ByTime, since: str = "") -> list[str]:
    return (await read(http, since))[0]


@pytest.mark.parametrize(
    "offsets",
    [
        (0, 1, 2, 3, 9, 9, 9, 12),
        (0, 5, 5, 5, 5, 5, 7, 7, 8),
        (*[5] * 12, 6),
        (1, 2, *[5] * 23, 6, 9, *[9] * 11),
        (),
    ],
)
async def test_events_of_one_moment_are_not_cut_by_a_page(offsets: tuple[int, ...]) -> None:
    found, bad = await read(ByTime(*offsets))
    assert sorted(set(found), key=int) == [str(n) for n in range(len(offsets))]
    assert bad == []


async def test_of_a_moment_with_more_than_can_be_told_the_rest_is_missed_aloud(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(instance_events, "MAX_OFFSET", 10)
    found, bad = await read(ByTime(*[5] * 30, 6))
    assert sorted(found, key=int) == [*(str(n) for n in range(15)), "30"]
    [row] = bad
    assert "no more than some 10 events of one moment" in row.reason


YEAR_MS = 365 * 24 * 3600 * 1000


@pytest.mark.parametrize(
    ("oldest", "most"),
    [(START.isoformat(), 6), ("2026-01-01 00:00:00", 6), (None, 6), ("soon", 140)],
)
async def test_it_walks_from_year_to_year(oldest: Any, most: int) -> None:
    """Also past empty ones, and without asking for those before the first event."""
    offsets = (0, YEAR_MS - 86_400_001, YEAR_MS - 86_400_000, YEAR_MS, 4 * YEAR_MS)
    http = ByTime(*offsets)
    http.oldest = oldest
    http.now = START + timedelta(milliseconds=4 * YEAR_MS, days=1)
    found = await ids(http)
    wanted = [str(n) for n in range(len(offsets))] if oldest else ["4"]
    assert sorted(set(found)) == wanted
    assert len(http.urls) <= most
    assert sorted(set(await ids(http, START.isoformat()))) == ["0", "1", "2", "3", "4"]


async def test_what_happened_at_the_very_moment_is_from_there_on() -> None:
    assert await ids(ByTime(0, 10), START.isoformat()) == ["0", "1"]


@pytest.mark.parametrize(
    "text", ["ftp://x", "there.example.com", "https://bob:hush@there.example.com", "http://[x"]
)
def test_an_address_has_no_password_in_it(text: str) -> None:
    assert is_address(HOST)
    assert not is_address(text)


@pytest.mark.parametrize("elsewhere", ["http://there.example.com", "https://evil.example.com"])
async def test_the_key_is_for_one_host(elsewhere: str) -> None:
    """A source may not know by which name it is called; ByTime sees to it that it is called so."""
    http = ByTime(*range(9), elsewhere=elsewhere)
    http.oldest = START.isoformat()
    assert sorted(set(await ids(http))) == [str(n) for n in range(9)]
    left = f"{elsewhere}/api/projects/7/events/?{urlencode({'after': START.isoformat()})}"
    assert len((await instance(http).page(left))[0]) == PAGE
    with pytest.raises(JobProblem, match="another address"):
        await instance(http).page(f"{elsewhere}/api/projects/8/events/")
    with pytest.raises(JobProblem, match="another address"):
        await instance(http).page(f"{HOST}/api/projects/7/%2e%2e/8/events/")


async def test_a_page_that_is_too_large_is_asked_for_in_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    http = ByTime(*range(9))
    http.oldest = START.isoformat()
    monkeypatch.setattr(instance_events, "AT_ONCE", 5)
    monkeypatch.setattr(reading, "ANSWER_BYTES", 300)
    assert sorted(set(await ids(http))) == [str(n) for n in range(9)]
    monkeypatch.setattr(reading, "ANSWER_BYTES", 40)
    with pytest.raises(JobProblem, match="more than 40 bytes"):
        await ids(http)


async def test_it_waits_as_long_as_it_is_told_and_asks_again() -> None:
    http = ByTime(1)
    asked = instance(http, 1.0, 2.0)
    url = asked.url("events/", after=START.isoformat())
    http.ill = [(429, {"retry-after": "7"}), (429, {}), (502, {}), (503, {})]
    assert len((await asked.page(url))[0]) == 1
    assert http.slept == [7.0, 10.0, 1.0, 2.0]
    http.slept.clear()
    http.ill = [(429, {"retry-after": said}) for said in ("3300", "9999", "0", *["60"] * 20)]
    assert len((await asked.page(url))[0]) == 1
    assert http.slept == [3300.0, 3700.0, 1.0, *[60.0] * 20]
    http.ill = [(429, {})] * 11
    with pytest.raises(RefusedBy, match="answers 429"):
        await asked.page(url)
    http.ill = [(502, {})] * 3
    with pytest.raises(CannotSend, match="answers 502"):
        await asked.page(url)
    http.ill = [(403, {})]
    with pytest.raises(RefusedBy, match=r"The service answers 403\. No\.") as refused:
        await asked.page(url)
    assert refused.value.status == 403
    http.ill = [(301, {"location": "https://new.example.com/"})]
    with pytest.raises(RefusedBy, match=r"It sends you to https://new\."):
        await asked.page(url)
