"""A stream yields every change and nothing else, and ends."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from hedgerow.errors import Throttled
from hedgerow.flags.evaluation.flag_cache import FlagCache
from hedgerow.flags.local_evaluation import etag_stream as module
from hedgerow.flags.local_evaluation.cache import LocalEvaluationCache
from hedgerow.flags.local_evaluation.etag_stream import EtagStreams
from hedgerow.lib.threads import run_in_thread
from tests.unit.flags.factories import make_flag
from tests.unit.flags.stores import FakeFlagStore
from tests.unit.projects.factories import TWO, make_project

PROJECT = make_project()
SOON_S = 30.0


class StreamFixture:
    def __init__(self) -> None:
        self.store = FakeFlagStore(make_flag())
        self.flag_cache = FlagCache(self.store, run_in_thread)
        self.stopping = asyncio.Event()
        local = LocalEvaluationCache(self.flag_cache, run_in_thread)
        self.streams = EtagStreams(self.flag_cache, local, self.stopping)
        self.allowed = True

    async def is_allowed(self) -> bool:
        return self.allowed

    def open_stream(self) -> AsyncIterator[str | None]:
        return self.streams.stream_etags(PROJECT, self.is_allowed)


async def next_etag(stream: AsyncIterator[str | None]) -> str | None:
    return await asyncio.wait_for(anext(stream), SOON_S)


async def test_etag_is_streamed_immediately_and_after_each_change() -> None:
    fixture = StreamFixture()
    stream = fixture.open_stream()
    first = await next_etag(stream)
    waiting = asyncio.ensure_future(next_etag(stream))
    fixture.store.put(make_flag(active=False))
    await fixture.flag_cache.refresh_changed()
    second = await waiting
    assert None not in (first, second)
    assert first != second
    await stream.aclose()  # type: ignore[attr-defined]


async def test_changes_without_effect_for_sdks_are_not_streamed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "HEARTBEAT_S", 0.01)
    fixture = StreamFixture()
    stream = fixture.open_stream()
    await next_etag(stream)
    fixture.store.put(make_flag(tags=("new",)))
    await fixture.flag_cache.refresh_changed()
    assert [await next_etag(stream) for _ in range(3)] == [None] * 3


async def test_stream_ends_when_access_is_revoked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HEARTBEAT_S", 0.01)
    fixture = StreamFixture()
    stream = fixture.open_stream()
    await next_etag(stream)
    assert await next_etag(stream) is None
    fixture.allowed = False
    with pytest.raises(StopAsyncIteration):
        await next_etag(stream)


async def test_shutdown_ends_all_streams() -> None:
    fixture = StreamFixture()
    streams = [fixture.open_stream() for _ in range(3)]
    waiting = []
    for stream in streams:
        await next_etag(stream)
        waiting.append(asyncio.ensure_future(next_etag(stream)))
    await asyncio.sleep(0)
    fixture.stopping.set()
    ended = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(each) for each in ended] == [StopAsyncIteration] * 3


async def test_listeners_per_project_are_limited_and_slots_are_released(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MAX_LISTENERS_PER_PROJECT", 2)
    monkeypatch.setattr(module, "MAX_LISTENERS", 3)
    fixture = StreamFixture()
    streams = [fixture.open_stream() for _ in range(2)]
    for stream in streams:
        fixture.streams.check_capacity(PROJECT)
        await next_etag(stream)
    with pytest.raises(Throttled):
        fixture.streams.check_capacity(PROJECT)
    other = make_project(TWO, token="phc_another")
    fixture.streams.check_capacity(other)
    await streams[0].aclose()  # type: ignore[attr-defined]
    fixture.streams.check_capacity(PROJECT)
