"""Reading events from an instance whose next page begins after a timestamp, like PostHog's."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest

from hedgerow.pipelines.imports import instance as reading
from hedgerow.pipelines.imports import instance_events
from hedgerow.pipelines.imports.instance import InstanceError, PostHogInstance, is_instance_url
from hedgerow.pipelines.imports.instance_events import read_events
from hedgerow.pipelines.imports.reading import EventsSummary
from hedgerow.plugin.http import Request, Response, StreamedResponse, TransportError
from hedgerow.plugin.imports import BadRow, ImportBatch, JobError

HOST = "https://source.example.com"
START = datetime(2026, 1, 1, tzinfo=UTC)
PAGE = 5


class FakeInstance:
    """Has events at these milliseconds after START, and refuses ranges of more than a year.
    `failures` are the next statuses and headers; `oldest` is the result of a query."""

    def __init__(self, *offsets_ms: int, next_host: str = HOST) -> None:
        self._events = [
            {"id": str(n), "timestamp": (START + timedelta(milliseconds=each)).isoformat()}
            for n, each in enumerate(sorted(offsets_ms))
        ]
        self._next_host = next_host
        self.now = START + timedelta(days=1)
        self.oldest: Any = None
        self.failures: list[tuple[int, dict[str, str]]] = []
        self.slept: list[float] = []
        self.urls: list[str] = []

    async def send(self, request: Request) -> Response:
        raise NotImplementedError

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[StreamedResponse]:
        assert request.headers["authorization"] == "Bearer key"
        assert request.url.startswith(f"{HOST}/api/projects/7/")
        status, headers = self.failures.pop(0) if self.failures else (200, {})
        content: Any = {"detail": "No."}
        if status == 200:
            status, content = self._respond(request)

        async def parts() -> AsyncIterator[bytes]:
            yield json.dumps(content).encode()

        yield StreamedResponse(status=status, headers=headers, chunks=parts())

    def _respond(self, request: Request) -> tuple[int, Any]:
        if request.method == "POST":
            return 200, {"results": [[self.oldest]]}
        self.urls.append(request.url)
        parameters = dict(parse_qsl(urlsplit(request.url).query))
        after = datetime.fromisoformat(parameters["after"])
        before = (
            datetime.fromisoformat(parameters["before"]) if "before" in parameters else self.now
        )
        if before - after > timedelta(days=366):
            return 400, {"detail": "Date range cannot exceed 1 year"}
        moments = [(each, datetime.fromisoformat(each["timestamp"])) for each in self._events]
        found = [each for each, moment in moments if after < moment < before]
        found = found[int(parameters.get("offset", 0)) :]
        limit = min(int(parameters.get("limit", PAGE)), PAGE)
        page = found[:limit]
        following = None
        if len(found) > limit:
            # All other parameters stay, including an offset.
            query = urlencode({**parameters, "after": page[-1]["timestamp"]})
            following = f"{self._next_host}/api/projects/7/events/?{query}"
        return 200, {"results": page, "next": following}

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


def instance(http: FakeInstance, *pauses_s: float) -> PostHogInstance:
    return PostHogInstance(HOST, "key", "7", http=http, sleep=http.sleep, pauses_s=pauses_s)


async def read(http: FakeInstance, since: str = "") -> tuple[list[str], list[BadRow]]:
    source = instance(http)
    read_page = partial(instance_events.read_page_here, source)
    events = read_events(source, since, None, lambda: http.now, read_page)
    portions = [each async for each in events]
    rows = [row.identity for each in portions for row in each.rows]
    return rows, [row for each in portions for row in each.bad]


async def ids(http: FakeInstance, since: str = "") -> list[str]:
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
async def test_events_of_one_timestamp_are_complete_across_pages(offsets: tuple[int, ...]) -> None:
    found, bad = await read(FakeInstance(*offsets))
    assert sorted(set(found), key=int) == [str(n) for n in range(len(offsets))]
    assert bad == []


async def test_events_beyond_the_maximum_offset_are_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(instance_events, "MAX_OFFSET", 10)
    found, bad = await read(FakeInstance(*[5] * 30, 6))
    assert sorted(found, key=int) == [*(str(n) for n in range(15)), "30"]
    [row] = bad
    assert "at most 10 events with the same timestamp" in row.reason


YEAR_MS = 365 * 24 * 3600 * 1000


@pytest.mark.parametrize(
    ("oldest", "most"),
    [(START.isoformat(), 6), ("2026-01-01 00:00:00", 6), (None, 6), ("soon", 140)],
)
async def test_events_are_read_in_windows_of_a_year(oldest: Any, most: int) -> None:
    """Empty windows are skipped, and reading starts at the first event."""
    offsets = (0, YEAR_MS - 86_400_001, YEAR_MS - 86_400_000, YEAR_MS, 4 * YEAR_MS)
    http = FakeInstance(*offsets)
    http.oldest = oldest
    http.now = START + timedelta(milliseconds=4 * YEAR_MS, days=1)
    found = await ids(http)
    expected = [str(n) for n in range(len(offsets))] if oldest else ["4"]
    assert sorted(set(found)) == expected
    assert len(http.urls) <= most
    assert sorted(set(await ids(http, START.isoformat()))) == ["0", "1", "2", "3", "4"]


async def test_event_at_exactly_date_from_is_included() -> None:
    assert await ids(FakeInstance(0, 10), START.isoformat()) == ["0", "1"]


@pytest.mark.parametrize(
    "text", ["ftp://x", "source.example.com", "https://bob:hush@source.example.com", "http://[x"]
)
def test_url_with_a_password_is_refused(text: str) -> None:
    assert is_instance_url(HOST)
    assert not is_instance_url(text)


@pytest.mark.parametrize("next_host", ["http://source.example.com", "https://evil.example.com"])
async def test_key_is_sent_to_one_host_only(next_host: str) -> None:
    """An instance may not know its public host; FakeInstance asserts the host of each request."""
    http = FakeInstance(*range(9), next_host=next_host)
    http.oldest = START.isoformat()
    assert sorted(set(await ids(http))) == [str(n) for n in range(9)]
    left = f"{next_host}/api/projects/7/events/?{urlencode({'after': START.isoformat()})}"
    assert len((await instance(http).page(left))[0]) == PAGE
    with pytest.raises(JobError, match="another address"):
        await instance(http).page(f"{next_host}/api/projects/8/events/")
    with pytest.raises(JobError, match="another address"):
        await instance(http).page(f"{HOST}/api/projects/7/%2e%2e/8/events/")


async def test_page_that_is_too_large_is_split(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    http = FakeInstance(*range(9))
    http.oldest = START.isoformat()
    monkeypatch.setattr(instance_events, "PAGE_SIZE", 5)
    monkeypatch.setattr(reading, "MAX_RESPONSE_BYTES", 300)
    assert sorted(set(await ids(http))) == [str(n) for n in range(9)]
    monkeypatch.setattr(reading, "MAX_RESPONSE_BYTES", 40)
    with pytest.raises(JobError, match="larger than 40 bytes"):
        await ids(http)


async def test_retry_after_is_respected_and_errors_are_retried() -> None:
    http = FakeInstance(1)
    parameters = instance(http, 1.0, 2.0)
    url = parameters.url("events/", after=START.isoformat())
    http.failures = [(429, {"retry-after": "7"}), (429, {}), (502, {}), (503, {})]
    assert len((await parameters.page(url))[0]) == 1
    assert http.slept == [7.0, 10.0, 1.0, 2.0]
    http.slept.clear()
    http.failures = [(429, {"retry-after": value}) for value in ("3300", "9999", "0", *["60"] * 20)]
    assert len((await parameters.page(url))[0]) == 1
    assert http.slept == [3300.0, 3700.0, 1.0, *[60.0] * 20]
    http.failures = [(429, {})] * 11
    with pytest.raises(InstanceError, match="HTTP 429"):
        await parameters.page(url)
    http.failures = [(502, {})] * 3
    with pytest.raises(TransportError, match="HTTP 502"):
        await parameters.page(url)
    http.failures = [(403, {})]
    with pytest.raises(
        InstanceError, match=r"The instance responds with HTTP 403\. No\."
    ) as caught:
        await parameters.page(url)
    assert caught.value.status == 403
    http.failures = [(301, {"location": "https://new.example.com/"})]
    with pytest.raises(InstanceError, match=r"It redirects to https://new\."):
        await parameters.page(url)


def test_pages_of_events_are_checked() -> None:
    parse = instance_events.parse_events_page
    page = parse(b'{"next": null, "results": [{"id": "1"}, {}, 7, {"id": 2, "timestamp": 3}]}', "h")
    assert [row.identity for row in page.rows] == ["1", "2"]
    assert [bad.reason for bad in page.bad] == ["It has no id.", "It is not a JSON object."]
    assert (page.summary.count, page.summary.newest) == (4, "")
    many = b'{"next": null, "results": [' + b"{}," * 1000 + b"{}]}"
    for body, reason in (
        (many, "1,001 events for a page of at most 1,000"),
        (b"[" * 500 + b"]" * 500, "nested deeper"),
        (b'{"results": 1}', "not a page"),
        (b'{"results": [], "next": "%s"}' % (b"x" * 9000), "longer than 8192"),
        (b"<html>", "not a page of events"),
    ):
        with pytest.raises(JobError, match=reason):
            parse(body, "h")


async def test_a_page_that_names_itself_as_the_next_one_ends_the_import() -> None:
    source = instance(FakeInstance())
    url = source.url("events/", cursor="x")

    async def read_page(_: str) -> tuple[EventsSummary, ImportBatch]:
        summary = EventsSummary(count=0, first="", newest="", following=url)
        return summary, ImportBatch(rows=(), cursor=None)

    events = read_events(source, "", {"newest": "", "next": url}, lambda: START, read_page)
    with pytest.raises(JobError, match="the same page"):
        _ = [each async for each in events]
