"""Events of an instance whose next page is what comes after a moment, as PostHog's is."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from hedgerow.pipelines.imports.instance import Instance, RefusedBy, events_of
from hedgerow.pipelines.model import JobProblem
from hedgerow.pipelines.sending import CannotSend, Request, Response, Stream

HOST = "https://there.example.com"
START = datetime(2026, 1, 1, tzinfo=UTC)
PAGE = 5


class ByTime:
    """Its events lie so many milliseconds after the start. `ill` are statuses to answer with."""

    def __init__(self, *offsets_ms: int, elsewhere: str = HOST) -> None:
        self._events = [
            {"id": str(n), "timestamp": (START + timedelta(milliseconds=each)).isoformat()}
            for n, each in enumerate(sorted(offsets_ms))
        ]
        self._elsewhere = elsewhere
        self.ill: list[tuple[int, dict[str, str]]] = []
        self.slept: list[float] = []

    async def send(self, request: Request) -> Response:
        raise NotImplementedError

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        assert request.headers["authorization"] == "Bearer key"
        status, headers = self.ill.pop(0) if self.ill else (200, {})

        async def parts() -> AsyncIterator[bytes]:
            yield json.dumps(
                self._page(request.url) if status == 200 else {"detail": "No."}
            ).encode()

        yield Stream(status=status, headers=headers, parts=parts())

    def _page(self, url: str) -> dict[str, Any]:
        after = datetime.fromisoformat(parse_qs(urlsplit(url).query)["after"][0])
        found = [e for e in self._events if datetime.fromisoformat(e["timestamp"]) > after]
        page = found[:PAGE]
        following = None
        if len(found) > PAGE:
            query = urlencode({"after": page[-1]["timestamp"], "limit": PAGE})
            following = f"{self._elsewhere}/api/projects/7/events/?{query}"
        return {"results": page, "next": following}

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


def instance(http: ByTime, *pauses_s: float) -> Instance:
    return Instance(HOST, "key", "7", http=http, sleep=http.sleep, pauses_s=pauses_s)


async def ids(http: ByTime, since: str = "") -> list[str]:
    portions = events_of(instance(http), since, None, lambda: START + timedelta(days=1))
    return [row.identity async for portion in portions for row in portion.rows]


@pytest.mark.parametrize("offsets", [(0, 1, 2, 3, 9, 9, 9, 12), (0, 5, 5, 5, 5, 5, 7, 7, 8), ()])
async def test_events_of_one_moment_are_not_cut_by_a_page(offsets: tuple[int, ...]) -> None:
    assert sorted(set(await ids(ByTime(*offsets)))) == [str(n) for n in range(len(offsets))]


async def test_pages_of_one_moment_come_to_an_end() -> None:
    assert await ids(ByTime(*[5] * 12, 6)) == ["0", "1", "2", "3", "4", "12"]


async def test_what_happened_at_the_very_moment_is_from_there_on() -> None:
    assert await ids(ByTime(0, 10), START.isoformat()) == ["0", "1"]


async def test_the_key_is_for_one_host() -> None:
    with pytest.raises(JobProblem, match="another address"):
        await ids(ByTime(*range(9), elsewhere="https://evil.example.com"))


async def test_it_waits_as_long_as_it_is_told_and_asks_again() -> None:
    http = ByTime(1)
    asked = instance(http, 1.0, 2.0)
    url = asked.url("events/", after=START.isoformat())
    http.ill = [(429, {"retry-after": "7"}), (429, {}), (502, {}), (503, {})]
    assert len((await asked.page(url))[0]) == 1
    assert http.slept == [7.0, 10.0, 1.0, 2.0]
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
