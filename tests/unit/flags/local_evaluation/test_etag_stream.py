"""A stream yields every change and nothing else, and ends."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest

from hedgerow.errors import Throttled
from hedgerow.flags.evaluation.flag_cache import FlagCache
from hedgerow.flags.local_evaluation import etag_stream as module
from hedgerow.flags.local_evaluation.cache import LocalEvaluationCache
from hedgerow.flags.local_evaluation.etag_stream import SERVER_STREAMS, EtagStreams, Listener
from hedgerow.lib.threads import run_in_thread
from hedgerow.projects.model import Project
from tests.unit.flags.factories import make_flag
from tests.unit.flags.stores import FakeFlagStore
from tests.unit.projects.factories import TWO, make_project

PROJECT = make_project()
SOON_S = 30.0


def make_listener(
    project: Project = PROJECT, key: str = "key", address: str = "192.0.2.1"
) -> Listener:
    return Listener(project=project, key=key, address=address)


class StreamFixture:
    def __init__(self, **limits: int) -> None:
        self.store = FakeFlagStore(make_flag())
        self.flag_cache = FlagCache(self.store, run_in_thread)
        self.stopping = asyncio.Event()
        local = LocalEvaluationCache(self.flag_cache, run_in_thread)
        self.streams = EtagStreams(
            self.flag_cache, local, self.stopping, replace(SERVER_STREAMS, **limits)
        )
        self.allowed = True

    async def is_allowed(self) -> bool:
        return self.allowed

    def open_stream(self) -> AsyncIterator[str | None]:
        return self.streams.stream_etags(make_project(), self.is_allowed, self.streams.get_sdk_etag)

    def is_full(self, listener: Listener) -> bool:
        try:
            with self.streams.hold(listener):
                return False
        except Throttled:
            return True


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


async def test_listeners_per_project_are_limited_and_slots_are_released() -> None:
    fixture = StreamFixture(per_project=2, total=3)
    with fixture.streams.hold(make_listener()):
        with fixture.streams.hold(make_listener()):
            assert fixture.is_full(make_listener())
            other = make_project(TWO, token="phc_another")
            assert not fixture.is_full(make_listener(other, key="other"))
        assert not fixture.is_full(make_listener())


@pytest.mark.parametrize(
    ("limit", "same", "different"),
    [
        ("per_key", {"address": "192.0.2.2"}, {"key": "other"}),
        ("per_address", {"key": "other"}, {"address": "192.0.2.2"}),
    ],
)
async def test_one_key_or_address_cannot_take_all_streams(
    limit: str, same: dict[str, Any], different: dict[str, Any]
) -> None:
    fixture = StreamFixture(**{limit: 2})
    with fixture.streams.hold(make_listener()):
        with fixture.streams.hold(make_listener()):
            assert fixture.is_full(make_listener(**same))
            assert not fixture.is_full(make_listener(**different))
        assert not fixture.is_full(make_listener(**same))


async def test_key_is_limited_in_all_projects_together() -> None:
    fixture = StreamFixture(per_key=1)
    with fixture.streams.hold(make_listener()):
        assert fixture.is_full(make_listener(make_project(TWO, token="phc_another")))


async def test_key_that_reached_its_limit_leaves_streams_to_others_at_its_address() -> None:
    fixture = StreamFixture()
    with ExitStack() as streams:
        for _ in range(SERVER_STREAMS.per_key):
            streams.enter_context(fixture.streams.hold(make_listener()))
        assert not fixture.is_full(make_listener(key="other"))
